"""A command in a process of its own, that outlives the shell.

The rule kept here: the catalog tells what became of it; the log is for reading when that is not enough.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path


def log_of(replay_id: str) -> Path:
    """Where the detached process of a replay writes, on the machine that started it."""
    from nats3_dagster.settings import home

    return home() / "logs" / f"load-{replay_id}.log"


def start_detached(command: Sequence[str], log: Path) -> tuple[int, Path]:
    """Start `nats3 <command>` in a session of its own, its output appended to `log`; its process id and the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "nats3_dagster.cli", *command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
            start_new_session=True, env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
    # It is not ours to wait for, and Popen would warn of that.
    process.returncode = 0
    return process.pid, log
