"""The tests of Spark on every PySpark that pyproject.toml admits: `make spark-versions [VERSIONS="4.0 4.1.3"]`.

Each version has an environment of its own under .nats3/: the packages of this environment, with PySpark replaced. A
version without a patch number is the newest patch release that pip offers when the environment is made.
"""

import argparse
import os
import subprocess
import sys
import sysconfig
import tempfile
import venv
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
VERSIONS = ("4.0", "4.1", "4.2", "4.3")
# Files that reach Spark: pipeline, sources, sink, Spark Connect, a cluster, the pages' examples.
TESTS = (
    "acceptance/test_cli_export.py",
    "acceptance/test_promises.py",
    "acceptance/test_spark_cluster.py",
    "acceptance/test_spark_docs.py",
    "acceptance/test_spark_jars.py",
    "acceptance/test_spark_scripts.py",
    "acceptance/test_spark_sink.py",
    "contract/test_direct_readers.py",
    "faults/test_interrupted_spark.py",
    "faults/test_killed_replay.py",
    "integration/test_archive_source.py",
    "integration/test_classes.py",
    "integration/test_contexts.py",
    "integration/test_interrupt.py",
    "integration/test_jetstream_sink.py",
    "integration/test_jetstream_source.py",
    "integration/test_spark_archive.py",
    "integration/test_spark_jetstream.py",
    "integration/test_write_lease.py",
    "orchestration/test_connect.py",
    "orchestration/test_platform.py",
    "unit/test_bad_input.py",
    "unit/test_header_maps.py",
    "unit/test_pyspark_features.py",
    "unit/test_spark_options.py",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the tests of one PySpark ended."""

    version: str
    passed: int
    # Failures and errors.
    failed: int
    # Reasons of tests that were left out, with the number of each.
    skipped: Counter[str]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="spark_versions", description="Run the tests of Spark on several versions")
    parser.add_argument("--versions", default=" ".join(VERSIONS), help="separated by spaces: 4.1, or 4.1.3")
    parser.add_argument("tests", nargs="*", help="instead of all tests of Spark; options of pytest too, after --")
    options = parser.parse_args(arguments)
    tests = options.tests
    if not any((ROOT / word.partition("::")[0]).exists() for word in tests):  # options of pytest alone choose no tests
        tests = [*tests, *(f"nats3_dagster_tests/{name}" for name in TESTS)]
    outcomes = [run(environment(version), tests) for version in options.versions.split()]
    print(*table(outcomes), sep="\n")
    return 1 if any(outcome.failed or not outcome.passed for outcome in outcomes) else 0


def environment(version: str) -> Path:
    """The Python of the environment of a version, which is made if there is none; this one if it has that version."""
    if f"{metadata.version('pyspark')}.".startswith(f"{version}."):
        return Path(sys.executable)
    folder = ROOT / ".nats3" / f"spark-{version}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        print(f"Making an environment with PySpark {version}", flush=True)
        venv.create(folder, clear=True, symlinks=True)
        packages = Path(sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)}))
        exact = version if version.count(".") > 1 else f"{version}.*"
        pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet"]
        subprocess.run([*pip, "--target", str(packages), f"pyspark=={exact}"], check=True)
        # After its own packages come ours; this line reads their .pth files too, one of which names the checkout.
        ours = sysconfig.get_path("purelib")
        (packages / "nats3.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
        _copy_programs(Path(sys.executable).parent, folder / "bin")
        subprocess.run([python, "-m", "nats3_dagster.pipeline.classes"], check=True, cwd=ROOT)
        (folder / "complete").touch()
    return python


def run(python: Path, tests: Sequence[str]) -> Outcome:
    """Run the tests by this Python. What they print is shown."""
    asked = "from importlib import metadata; print(metadata.version('pyspark'))"
    version = subprocess.run([python, "-c", asked], check=True, capture_output=True, text=True).stdout.strip()
    print(f"PySpark {version}", flush=True)
    # PySpark before 4.3 leaves sockets of collect() to the garbage collector, which warns of them.
    ignored = ("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
    quiet = [] if version.startswith(VERSIONS[-1]) else [word for each in ignored for word in ("-W", each)]
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [python, "-m", "pytest", "-q", "-n", "0", *quiet, f"--junitxml={report}", *tests]
        path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
        subprocess.run(command, check=False, cwd=ROOT, env=os.environ | {"PATH": path})
        cases = [*ElementTree.parse(report).iter("testcase")] if report.exists() else []
    failed = sum(case.find("failure") is not None or case.find("error") is not None for case in cases)
    skips = [skip.get("message", "") for case in cases if (skip := case.find("skipped")) is not None]
    # The version that this is stands in the first column.
    skipped = Counter(reason.partition(", and this is ")[0] for reason in skips)
    return Outcome(version, len(cases) - failed - len(skips), failed, skipped)


def table(outcomes: Sequence[Outcome]) -> list[str]:
    """The lines of the table that ends a run."""
    lines = [f"{'PySpark':10}{'passed':>8}{'failed':>8}  left out"]
    for outcome in outcomes:
        left_out = "; ".join(f"{count} ({reason})" for reason, count in sorted(outcome.skipped.items())) or "nothing"
        lines.append(f"{outcome.version:10}{outcome.passed:>8}{outcome.failed:>8}  {left_out}")
    return lines


def _copy_programs(source: Path, target: Path) -> None:
    """Programs of packages, which name their Python in the first line."""
    old = f"#!{source / 'python'}".encode()
    for program in source.iterdir():
        copy = target / program.name
        if program.is_file() and not copy.exists() and (text := program.read_bytes()).startswith(old):
            copy.write_bytes(text.replace(old, f"#!{target / 'python'}".encode(), 1))
            copy.chmod(0o755)


if __name__ == "__main__":
    sys.exit(main())
