"""A whole account made again from its archives, as it was at a moment; and drills that show that it would work."""
