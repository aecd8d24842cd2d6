"""The archive of Spark's classes: used where it fits, unnoticed where it does not."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.errors import EngineError
from nats3_dagster.pipeline import classes
from nats3_dagster.pipeline.java import conf_dir, find_java


def test_the_jvm_of_a_session_uses_what_the_setup_made(spark: Any) -> None:
    made = classes.archive(find_java())
    assert made.is_file(), "make setup makes it"
    jvm = spark.sparkContext._jvm
    assert f"-XX:SharedArchiveFile={made}" in list(
        jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getInputArguments()
    )
    maps = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/maps")
    if maps.exists():  # Linux
        assert str(made) in maps.read_text()


def said(java: Path, *words: str) -> str:
    """What Java says of its version and of anything else, but not whether it shares classes."""
    ran = subprocess.run([str(java), *words, "-version"], capture_output=True, text=True, check=True)
    return (ran.stdout + ran.stderr).replace(", sharing", "")


def test_one_that_does_not_fit_is_left_aside_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = find_java()
    uses, quiet = classes.options(java)
    assert "archive" in said(java, uses, "-cp", "elsewhere")
    assert said(java, uses, quiet, "-cp", "elsewhere") == said(java)
    monkeypatch.setattr(classes, "_FOLDER", tmp_path)
    assert classes.options(java) == []
    classes.archive(java).write_bytes(b"no archive")
    assert said(java, *classes.options(java)) == said(java)


@pytest.fixture
def failing_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'no such module' >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))


@pytest.mark.usefixtures("failing_java")
def test_a_java_that_fails_is_told_beside_its_own_words() -> None:
    script = "from nats3_dagster.pipeline.session import start\ntry:\n    start()\nexcept Exception as e:\n    print(e)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert "no such module" in ran.stderr
    assert ran.stdout.startswith("Spark did not start: [JAVA_GATEWAY_EXITED] ")
    assert ran.stdout.endswith(". See what Java wrote to standard error\n")


@pytest.mark.usefixtures("failing_java")
def test_none_is_made_by_a_java_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_FOLDER", tmp_path / "archives")
    with pytest.raises(EngineError, match=r"were not archived: .*\. Runs work without it"):
        classes.make()
    assert list((tmp_path / "archives").iterdir()) == []


def test_one_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(classes, "_FOLDER", tmp_path)
    there = classes.archive(find_java())
    there.write_bytes(b"")
    assert classes.make() == there
    assert there.read_bytes() == b""


ARCHIVED, FORKED = "-XX:SharedArchiveFile=", "spark.python.daemon.module=nats3_dagster.pipeline.worker_daemon"


@pytest.mark.parametrize(
    ("words", "folder", "archived", "forked"),
    [
        (["a.py", "--hour", "it's"], None, True, True),
        (["--master", "local[4]", "a.py"], None, True, True),
        (["--master", "spark://host:7077", "a.py"], None, True, False),
        (["--driver-java-options", "-Da=b", "a.py"], None, False, False),
        (["a.py"], "/etc/spark", False, False),
    ],
)
def test_the_script_starts_spark_as_a_session_does(
    words: list[str], folder: str | None, archived: bool, forked: bool, tmp_path: Path
) -> None:
    """Unless a configuration of the user's is to be read, or tasks run on other machines."""
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text('#!/bin/sh\nprintf "%s\\n" "${SPARK_CONF_DIR-}" "$@"\n')
    submit.chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"SPARK_HOME": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    environment |= {"SPARK_CONF_DIR": folder} if folder else {}
    ran = subprocess.run(
        [str(conf_dir() / "submit.sh"), *words], env=environment, capture_output=True, text=True, check=True
    )
    given, *arguments = ran.stdout.splitlines()
    assert (ran.stderr, given) == ("", "" if archived else folder or str(conf_dir()))
    assert any(ARCHIVED in word for word in arguments) == archived
    assert (FORKED in arguments) == forked
    assert [word for word in arguments if word in words] == words
