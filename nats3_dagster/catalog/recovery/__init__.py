"""Recovery: a catalog as one file and back, and rows that are made again from a bucket."""
