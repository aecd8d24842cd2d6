"""Served: an archive as a stream that is read and never written: what is archived, and after it what its stream has."""
