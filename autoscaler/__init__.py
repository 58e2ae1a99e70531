"""An autoscaler for Grid Engine: rents workers for waiting jobs and gives them back when they are idle."""

CONFIG_ENV = "CP_CAP_AUTOSCALE_CONFIG"
"""Names the settings file."""
