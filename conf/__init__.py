"""Package data: the default settings file, templates, instance catalogues and the systemd unit."""
