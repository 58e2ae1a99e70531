"""The sources of workers: one provider per cloud, plus a local one and one in memory."""
