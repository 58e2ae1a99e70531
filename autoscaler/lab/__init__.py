"""A private Grid Engine, played clouds and the demo, for trying and for tests. The service never imports it."""
