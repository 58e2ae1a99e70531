"""What execution hosts show: their machine, whether they report, missing values, and the fault behind a failed job."""
