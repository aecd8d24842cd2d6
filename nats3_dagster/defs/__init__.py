"""Dagster: an archive's hours as partitions of assets, and the jobs that capture, seal and replay them.

A face: its modules translate, call one use case, and show what came of it. A load reads the catalog once and does
nothing else. Modules that import NATS, Arrow or Spark (archive.backlog, .due, .loss, .source, .proof,
replay.plan, .begin, pipeline) are imported by the functions that use them: each load would take 0.4 s more, on top of
0.8 s.
"""
