"""Captures: what is due, an hour's sequence bounds, and the way of a range into chunks."""
