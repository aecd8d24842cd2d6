"""Java and Spark: are they there, do they fit, and does a session run?"""

import re
import subprocess
from collections.abc import Iterator

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.pipeline.classes import archive
from nats3_dagster.pipeline.java import JAVA_HINT, REQUIREMENTS_HINT, find_java

JAVA, SPARK = "java", "spark"


def check_java() -> Iterator[Finding]:
    """The Java that Spark would start, 17 or later, and whether it has Spark's classes at hand."""
    program = find_java()
    try:
        output = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        yield Finding("fail", JAVA, f"{program} does not run: {type(error).__name__}", JAVA_HINT)
        return
    version = re.search(r'version "(\d+)([^"]*)"', output)
    if not version:
        yield Finding("fail", JAVA, f"{program} does not say its version", JAVA_HINT)
    elif int(version[1]) < 17:
        yield Finding("fail", JAVA, f"{program} is Java {version[1]}{version[2]}", JAVA_HINT)
    else:
        yield Finding("ok", JAVA, f"Java {version[1]}{version[2]} ({program})")
        if not archive(program).is_file():
            what = "It has no archive of Spark's classes: each run takes 4 s longer to start"
            yield Finding("warn", JAVA, what, "Make it once: python -m nats3_dagster.pipeline.classes")


def check_spark(master: str | None, remote: str | None, *, start: bool) -> Iterator[Finding]:
    """PySpark and what its workers import; a server of Spark Connect where `remote` names one. With `start`, a session
    and one task in a worker."""
    from importlib.metadata import PackageNotFoundError, version

    versions: dict[str, str] = {}
    for name in ("pyspark", "pandas", "pyarrow"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            yield Finding("fail", SPARK, f"{name} is not installed", REQUIREMENTS_HINT)
            return
    listed = ", ".join(f"{name} {number}" for name, number in versions.items())
    try:
        from nats3_dagster.pipeline import connect, session, tasks
    except ImportError as error:
        yield Finding("fail", SPARK, f"{listed}: {error.name} cannot be imported", REQUIREMENTS_HINT)
        return
    if not versions["pyspark"].startswith("4."):
        yield Finding("fail", SPARK, listed, "Use PySpark 4: install what requirements.lock says")
    elif int(versions["pandas"].split(".")[0]) >= 3:
        yield Finding("fail", SPARK, listed, "Use pandas 2: PySpark's Arrow functions do not fit pandas 3 yet")
    else:
        yield Finding("ok", SPARK, listed)
    if not start and not remote:
        return
    # A check does not wait for a server.
    spark = connect.connect(remote, 0) if remote else session.start(master)
    if remote:
        host, port = connect.address(remote)
        yield Finding("ok", SPARK, f"Spark Connect {spark.version} answers at {host}:{port}")
    if not start:
        return
    python = tasks.run_tasks(spark, "doctor", _python, [None]).results[0]
    yield Finding("ok", SPARK, f"A session of Spark {spark.version} runs; its worker is Python {python}")


def _python(_: None) -> Iterator[str]:
    """Yields the version of its Python. It runs in a worker."""
    import platform

    yield platform.python_version()
