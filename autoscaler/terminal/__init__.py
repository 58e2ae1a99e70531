"""What a person sees on a terminal while the autoscaler runs."""
