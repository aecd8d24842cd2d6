"""The scripts for spark-submit, as far as they come without Spark: their options, and errors that name only these."""

import importlib.util
import os
import re
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nats3_dagster.cli import exit_status
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster_tests.support.commands import root_command
from nats3_dagster_tests.support.runs import archive_events
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# What `nats3 load create` has for other things than the replay itself, or names in another way.
OTHERS = {
    "--archive",
    "--bucket",
    "--read-stream",
    "--read-consumer",
    "--prefix",
    "--name",
    "--start",
    "--end",
    "--dry-run",
    "--detach",
    "--output",
    "--delete-chunks",
    "--delete-unexported",
    "--yes",
    "--interactive",
    "--from-json",
}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("republish", ROOT / "spark" / "republish.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options(script: ModuleType) -> set[str]:
    return set(re.findall(r"--[a-z-]+", script.options().format_help()))


def test_it_takes_what_a_replay_of_the_command_line_takes(script: ModuleType) -> None:
    command: Any = root_command()
    create = command.commands["load"].commands["create"]
    offered = {word for p in create.params for word in p.opts if word.startswith("--")}
    assert offered - OTHERS <= options(script)
    arguments = script.options().parse_args(
        [
            "ev",
            "--write-subject",
            "a.>",
            "--sequences",
            "5-9",
            "--byte-rate",
            "1KiB",
            "--create-stream",
            "A",
            "--into-own-stream",
            "--over-gaps",
        ]
    )
    spec = script.spec_of(arguments)
    assert (spec.selection.sequences, spec.pace.byte_rate, spec.create_stream) == ((5, 9), 1024, "A")
    assert (spec.into_own_stream, spec.over_gaps) == (True, True)
    assert script.spec_of(script.options().parse_args(["ev", "--write-subject", "a.>", "--speed", "2"])).pace.speed == 2


def test_its_errors_name_only_options_that_it_has(script: ModuleType) -> None:
    asked = "".join(
        (ROOT / "nats3_dagster" / name).read_text()
        for name in (
            "replay/planning/plan.py",
            "replay/planning/creation.py",
            "replay/planning/refusals.py",
            "replay/planning/destinations.py",
            "replay/targets.py",
            "replay/messages/published.py",
            "replay/messages/mapping.py",
            "archive/selected/uncovered.py",
        )
    )
    codes = [Next[name] for name in re.findall(r"Next\.([A-Z_]+)", asked)]
    named = {word for code in codes for word in re.findall(r"--[a-z-]+", re.sub(r"nats3 .*", "", WORDS[code]))}
    assert {"--over-gaps", "--create-stream", "--into-own-stream"} <= named <= options(script)


def test_a_refusal_is_one_line_that_names_an_option_of_its_own(
    script: ModuleType, settings: Settings, wire: Wire, bucket: str, capfd: pytest.CaptureFixture[str]
) -> None:
    wire.create_stream("EV", "ev.>")
    archive_events(settings, bucket)

    def refused(*words: str) -> tuple[int, str]:
        arguments = script.options().parse_args(words)
        return exit_status.run(lambda: script.main(arguments)), capfd.readouterr().err

    missing = "Error: No archive or replay is named. Give ARCHIVE and --write-subject, or --resume ID\n"
    assert refused("events") == (2, missing)
    status, line = refused("events", "--write-subject", "a.>")
    assert (status, line) == (
        2,
        (
            "Error: Archive events holds nothing of this selection. See the chunks of archive events: "
            "nats3 chunk list events\n"
        ),
    )


def test_without_its_python_it_says_what_to_do(tmp_path: Path) -> None:
    absent = str(tmp_path / "python")
    environment = {**os.environ, "PYSPARK_PYTHON": absent}
    ran = subprocess.run([ROOT / "spark" / "submit.sh"], env=environment, capture_output=True, text=True, check=False)
    says = f"Error: There is no Python at {absent}. Run make setup, or name one with nats3_dagster in PYSPARK_PYTHON\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", says)
