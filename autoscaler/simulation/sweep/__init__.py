"""Policy search: many settings on many windows of workloads, spread over processes by Dask, judged on other jobs."""
