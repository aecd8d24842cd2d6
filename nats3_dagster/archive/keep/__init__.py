"""Keeping: what is done with messages that are archived already."""
