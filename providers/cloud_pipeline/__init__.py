"""Worker runs of a Cloud Pipeline master run, rented by the platform's REST API."""
