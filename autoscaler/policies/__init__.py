"""Autoscale policies: programs that request workers ahead of jobs, or for work that is no job of Grid Engine's."""
