"""Captures and replays as Spark jobs.

The rule kept here: Spark carries plans and results, never messages. A plan is one row a task, `mapInArrow` does the
I/O in the Python workers, and what comes back is metadata; payloads do not cross into the JVM.
"""
