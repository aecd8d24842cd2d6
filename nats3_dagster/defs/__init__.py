"""Dagster: an archive's hours as partitions of assets, and the jobs that fill and replay them.

A face: modules here translate, call one use case and show what came of it. Loading reads the catalog once and does
nothing else; Spark is imported by a run only.
"""
