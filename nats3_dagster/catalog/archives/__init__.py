"""Archives: what is captured, what happened to it, and what its consumer has delivered."""
