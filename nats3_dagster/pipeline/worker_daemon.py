"""The process from which Spark forks its Python workers on this machine, with the imports of their tasks done.

Invariant: it has one thread when it forks; a lock that another thread held would stay held in the worker. PySpark's own
daemon (pyspark/daemon.py) imports nothing, for the same reason.
"""

import gc
import os

# Libraries that numpy and pyarrow bring in start threads as they are loaded: OpenBLAS, which no task uses, and
# jemalloc, beside which Arrow takes mimalloc.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("JE_ARROW_MALLOC_CONF", "background_thread:false")

import pyspark.worker  # noqa: F401
from pyspark.daemon import manager

import nats3_dagster.archive.captures.task
import nats3_dagster.archive.take.take_capture
import nats3_dagster.exports.group_export
import nats3_dagster.jetstream.task_progress
import nats3_dagster.replay.messages.republish  # noqa: F401

if __name__ == "__main__":
    # What is there stays in pages that all workers share: a collection would write to each of them.
    gc.freeze()
    manager()
