"""HTTP: the REST API of CycleCloud, served for any provider. Writes requests and overrides; the loop acts."""
