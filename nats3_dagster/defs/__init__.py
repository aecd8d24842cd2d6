"""Dagster: an archive's hours as partitions of assets, and the jobs that fill and replay them.

The rule kept here: loading reads the catalog once and does nothing else; Spark, NATS and the store are imported and
reached only by a run.
"""
