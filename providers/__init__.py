"""Where workers come from: one provider per cloud, plus a local one and one in memory."""
