"""`nats3 serve` as a process."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def serving(*options: str, environment: Mapping[str, str] | None = None) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`nats3 serve`, and the URL that it prints once it listens. `environment`: added to this process's."""
    command = [sys.executable, "-m", "nats3_dagster.cli", "serve", *(options or ("--port", "0"))]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **(environment or {})})
    assert process.stderr
    try:
        while (line := process.stderr.readline()).startswith("uvicorn."):
            pass  # of --debug
        assert line.startswith("The API answers at http"), line + process.stderr.read()
        yield process, line.split()[4].rstrip(";")
    finally:
        process.kill()
        process.wait()
        process.stderr.close()
