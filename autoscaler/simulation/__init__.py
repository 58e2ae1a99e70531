"""A Grid Engine and a cloud in memory, driven by the same `plan` as the service: a policy is tried on recorded jobs.

Nothing here talks to a cell or a cloud. Times are seconds since the start of the workload unless said otherwise.
"""
