"""HTTP: the REST API of CycleCloud, served for any provider. Writes requests and wishes to the store; the loop acts."""
