"""Proof: what shows that an archive is whole, and what mends it."""
