"""Planning: what a replay would do, where to, and what its targets would refuse."""
