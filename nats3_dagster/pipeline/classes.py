"""The archive of Spark's classes, from which a JVM maps what it would otherwise read, parse and check at each start.

The rule kept here: an archive is an advantage and never a need. Its name says for which Java and which PySpark it was
made; a JVM that finds none by that name, or one that does not fit, starts as it always did.

    python -m nats3_dagster.pipeline.classes         makes it, if there is none (docs/operate.md)
"""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from nats3_dagster.errors import EngineError

JAVA_HINT = "Install a Java runtime, 17 or later (openjdk-17-jre-headless), or set JAVA_HOME to one"
# 157 MB, beside the environment that it belongs to.
_FOLDER = Path(sys.prefix) / "share" / "nats3"
_WITHOUT = "Runs work without it, and take 4 s longer to start"


def find_java() -> Path:
    """The program that Spark will start. Raises EngineError when there is none."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin")) if home else None)
    if found is None:
        raise EngineError("Spark needs Java, and there is none" + (f" in JAVA_HOME {home}" if home else ""), JAVA_HINT)
    return Path(found)


def spark_home() -> Path:
    """PySpark's folder, asked without importing it. Raises EngineError when it is not installed."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise EngineError("PySpark is not installed", "Install nats3-dagster with its requirements: make setup")
    return Path(spec.origin).parent


def archive(java: Path) -> Path:
    """Where the archive for this Java is, or would be."""
    jars = spark_home() / "jars"
    # By the second, as layers of an image keep times, and as the JVM compares those of its jars.
    fits = [str(java.resolve()), int(java.stat().st_mtime), str(jars), int(jars.stat().st_mtime)]
    return _FOLDER / f"spark-{hashlib.sha256(repr(fits).encode()).hexdigest()[:16]}.jsa"


def options(java: Path) -> list[str]:
    """The JVM's options by which it uses the archive; none where there is no archive."""
    found = archive(java)
    # A JVM that it does not fit says so on standard output, in the middle of what a command prints.
    return [f"-XX:SharedArchiveFile={found}", "-Xlog:cds*=off"] if found.is_file() else []


def make() -> Path:
    """The archive, made if there is none; what was made for another Java or PySpark is removed.

    Raises EngineError when Spark does not start, or the folder cannot be written."""
    from nats3_dagster.pipeline.session import submit_arguments

    java = find_java()
    made = archive(java)
    if made.is_file():
        return made
    try:
        _FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=_FOLDER) as folder:
            new = Path(folder) / "new.jsa"
            _train(submit_arguments([f"-XX:ArchiveClassesAtExit={new}", "-Xlog:cds*=off"]), new)
            for old in _FOLDER.glob("spark-*.jsa"):
                old.unlink(missing_ok=True)
            new.rename(made)
    except OSError as error:
        raise EngineError(f"Spark's classes cannot be archived in {_FOLDER}: {error.strerror}", _WITHOUT) from error
    return made


def _train(arguments: list[str], new: Path) -> None:
    """Have a JVM do what it does in every run, and keep the classes that it needed."""
    command = [str(spark_home() / "bin" / "spark-submit"), *arguments, str(Path(__file__).with_name("training.py"))]
    # Not the settings of whoever asks: they may name another configuration, or a cluster.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", check=False,
    )  # fmt: skip
    if done.returncode or not new.is_file():
        said = done.stdout.strip().splitlines() or ["it said nothing"]
        raise EngineError(f"Spark's classes were not archived: {said[-1][:200]}", _WITHOUT)


if __name__ == "__main__":
    try:
        make()
    except EngineError as failed:
        sys.exit(str(failed))
