"""What jobs and users may use: access lists, projects and resource quotas."""
