"""Captures: which hours are due, and how a range of sequences becomes chunks of the catalog."""
