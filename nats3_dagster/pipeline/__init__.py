"""Captures and replays as Spark jobs.

Invariant: Spark carries plans and results, never messages. A plan is one row for each task, `mapInArrow` does the I/O
in the Python workers, and what comes back is metadata; payloads do not cross into the JVM.
"""
