"""Source: what the stream of an archive is and says now, and what of it is not archived."""
