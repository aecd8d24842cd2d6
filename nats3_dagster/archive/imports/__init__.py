"""Imports: an archive of a backup that a server made of a stream."""
