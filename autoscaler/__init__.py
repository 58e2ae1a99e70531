"""An autoscaler for Grid Engine: rents workers for waiting jobs and gives them back when they are idle."""
