"""Stored: the objects of archives in their buckets: whose folder it is, reading, removing."""
