"""The archive of Spark's classes, from which a JVM maps what it would otherwise read, parse and check at each start.

Invariant: nothing needs an archive. Its name says for which Java and which PySpark it was made; a JVM that finds none
by that name, or one that does not fit, starts as it does without.

    python -m nats3_dagster.pipeline.classes         makes it, if there is none (docs/operate.md)
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from nats3_dagster.errors import EngineError
from nats3_dagster.pipeline.java import find_java, spark_home, submit_arguments

# 157 MB, beside the environment that it belongs to.
_FOLDER = Path(sys.prefix) / "share" / "nats3"
_WITHOUT = "Runs work without it, and take 4 s longer to start"


def archive(java: Path) -> Path:
    """Returns the path of the archive for this Java, made or not."""
    jars = spark_home() / "jars"
    # By the second, as layers of an image keep times, and as the JVM compares those of its jars.
    fits = [str(java.resolve()), int(java.stat().st_mtime), str(jars), int(jars.stat().st_mtime)]
    return _FOLDER / f"spark-{hashlib.sha256(repr(fits).encode()).hexdigest()[:16]}.jsa"


def options(java: Path) -> list[str]:
    """Returns the JVM's options for the use of the archive; none if there is no archive."""
    file = archive(java)
    # A JVM that it does not fit says so on standard output, in the middle of what a command prints.
    return [f"-XX:SharedArchiveFile={file}", "-Xlog:cds*=off"] if file.is_file() else []


def make() -> Path:
    """The archive, made if there is none; what was made for another Java or PySpark is removed.

    Raises EngineError when Spark does not start, or the folder cannot be written."""
    target = archive(find_java())
    if target.is_file():
        return target
    try:
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
            new = Path(folder) / "new.jsa"
            _train(submit_arguments([f"-XX:ArchiveClassesAtExit={new}", "-Xlog:cds*=off"]), new)
            for old in _FOLDER.glob("spark-*.jsa"):
                old.unlink(missing_ok=True)
            new.rename(target)
    except OSError as error:
        raise EngineError(f"Spark's classes cannot be archived in {_FOLDER}: {error.strerror}", _WITHOUT) from error
    return target


def _train(arguments: list[str], new: Path) -> None:
    """Let a JVM do what it does in every run, and keep the classes that it needed."""
    command = [str(spark_home() / "bin" / "spark-submit"), *arguments, str(Path(__file__).with_name("training.py"))]
    # Without the settings of the caller: they may name another configuration, or a cluster.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode or not new.is_file():
        lines = done.stdout.strip().splitlines() or ["it said nothing"]
        raise EngineError(f"Spark's classes were not archived: {lines[-1][:200]}", _WITHOUT)


if __name__ == "__main__":
    try:
        make()
    except EngineError as error:
        sys.exit(str(error))
