"""Tables: an archive as an Iceberg table. The only place with pyiceberg.

Invariant: no file of an archive is written, changed or deleted here. A table lists chunks, and is dropped without them.
"""
