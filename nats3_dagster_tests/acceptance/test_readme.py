"""The README as a new user follows it: its shell blocks, word for word and in order, in one shell and one folder.

What it asks of the README:
- A block that begins with ```sh is run. Any other block is not. All blocks are one shell: what a block sets, enters or
  activates holds for the next ones. It ends at the first command that fails.
- A block that begins with ```text, right below a ```sh block, is what that block prints: its lines come in this order
  among others, `...` stands for any text, and the width of white space does not count.
- No hour or day is written in: it is computed, by `date` or from what a command prints.
- `nats3 dev` without --stack-only, `make dev` and `UI=1` stay until interrupted: they are not for a ```sh block.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from nats3_dagster.dev.loglines import read_lines
from nats3_dagster.dev.nats_server import NatsServer
from nats3_dagster.dev.process import answers, free_port
from nats3_dagster.dev.s3.server import S3Server
from nats3_dagster.dev.stack import Stack
from nats3_dagster.errors import OperatorError
from nats3_dagster_tests.support.wire import Wire

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
# Commands that do not run here, with the reason.
SKIPPED = {"make test": "it is this suite"}
# Eight JVMs start one after the other.
_TIMEOUT_S = 900
# Where `nats3 serve` listens.
API_PORT = 8080


@dataclass(frozen=True)
class Shell:
    """A copy of the checkout in which `make setup` has nothing to do, and what a shell there has in its environment."""

    folder: Path
    environment: dict[str, str]

    def run(self, script: str) -> tuple[int, str]:
        """Exit status, and standard output and error together."""
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", "-c", script],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                status = process.wait(_TIMEOUT_S)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
            output.seek(0)
            return status, output.read()

    def json(self, command: str) -> Any:
        """What a command of `nats3` prints for programs."""
        status, output = self.run(f". .venv/bin/activate && nats3 {command} -o json 2>/dev/null")
        assert status == 0, (command, output)
        return json.loads(output)


@pytest.fixture(scope="module")
def shell(server_folder: Path) -> Iterator[Shell]:
    """What runs there in the end is stopped."""
    folder = server_folder / "readme"
    _clone(folder)
    _link_environment(folder)
    own = ("NATS3_", "AWS_", "DAGSTER_HOME", "MAKE", "MFLAGS", "PYTEST", "VIRTUAL_ENV", "PYSPARK_", "SPARK_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
    # The package of this folder and not the installed one; and nothing is fetched.
    yield Shell(folder, environment | {"PYTHONPATH": str(folder), "PIP_NO_INDEX": "1"})
    stack = Stack(folder / ".nats3")
    if stack.dagster.find():
        stack.dagster.stop()
    stack.stop()


def _clone(folder: Path) -> None:
    """A clone of the checkout as it would be committed now: what git ignores is not in it."""
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@localhost"]
    listed = [*git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "clone"]):
        subprocess.run([*git, *words], cwd=folder, check=True)


def _link_environment(folder: Path) -> None:
    """A .venv whose programs are those of this Python, with the stamps by which scripts/setup.sh knows that it fits."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    for program in Path(sys.executable).parent.iterdir():
        if not program.name.startswith(("python", "activate", "nats3")):
            (programs / program.name).symlink_to(program)
    # A link would make it a Python without an environment. What it installs would go into the environment of this
    # Python: an editable install once pointed it at this folder, and later tests found no package.
    refused = 'case "$*" in "-m pip install"*) echo "setup.sh installs: the stamps below are old" >&2; exit 1 ;; esac'
    for name in ("python", "python3"):
        _write_program(programs / name, f'{refused}\nexec "{sys.executable}" "$@"')
    _write_program(programs / "nats3", f'exec "{sys.executable}" -m nats3_dagster.cli "$@"')
    activate = f'VIRTUAL_ENV="{programs.parent}" PATH="{programs}:$PATH"\nexport VIRTUAL_ENV PATH\n'
    (programs / "activate").write_text(activate)
    stamps = {".requirements": "requirements.lock", ".project": "pyproject.toml nats3_dagster/version.py"}
    for stamp, files in stamps.items():
        stamped = subprocess.run(
            f"{{ pwd; cat {files}; }} | cksum", shell=True, cwd=folder, capture_output=True, text=True, check=True
        )
        (folder / ".venv" / stamp).write_text(stamped.stdout)


def _write_program(file: Path, command: str) -> None:
    file.write_text(f"#!/bin/sh\n{command}\n")
    file.chmod(0o755)


@dataclass(frozen=True)
class Readme:
    """The shell blocks as one script, whose line numbers are those of the README."""

    script: str
    # By the line of the README that ends a shell block: what the README shows of its output.
    shown: Mapping[int, Sequence[str]]


def read(text: str) -> Readme:
    script: list[str] = []
    shown: dict[int, list[str]] = {}
    kind, ended = None, 0
    for number, line in enumerate(text.splitlines(), 1):
        command = ""
        if line.startswith("```"):
            if kind == "sh":
                command, ended = f"printf '\\n@@{number}\\n'", number
            kind = None if kind is not None else line.removeprefix("```").strip()
        elif kind == "sh":
            skipped = line.partition("#")[0].strip() in SKIPPED
            command = ":" if skipped else line
        elif kind == "text" and ended:
            shown.setdefault(ended, []).extend(filter(str.strip, [line]))
        elif line.strip() and kind is None:
            ended = 0
        script.append(command)
    assert script[0] == "", "The first line is a title"
    script[0] = "set -e; trap 'echo \"@@failed: line $LINENO of README.md: $BASH_COMMAND\"' ERR"
    return Readme("\n".join(script) + "\n", shown)


def missing(shown: Sequence[str], output: str) -> str | None:
    """The first line that the output does not have after those before it."""
    rest = [" ".join(line.split()) for line in output.splitlines()]
    for line in shown:
        pattern = ".*".join(re.escape(part) for part in " ".join(line.split()).split("..."))
        at = next((n for n, have in enumerate(rest) if re.fullmatch(pattern, have)), None)
        if at is None:
            return line
        rest = rest[at + 1 :]
    return None


def test_blocks_become_a_script_with_the_lines_of_the_readme() -> None:
    shell = "```sh\nmake test  # all\nX=1\necho 2\n```\n"
    parts = read(f"# A\n{shell}\n```text\na  1\n\n... b\n```\nWords\n```text\nno\n```\n```sh\necho $X\n```\n")
    commands = {n: line for n, line in enumerate(parts.script.splitlines(), 1) if line and n > 1}
    ends = {n: f"printf '\\n@@{n}\\n'" for n in (6, 19)}
    assert commands == {3: ":", 4: "X=1", 5: "echo 2", 18: "echo $X"} | ends
    assert parts.shown == {6: ["a  1", "... b"]}
    assert missing(["a  1", "... b"], "head\na 1\nx\n3 b\n") is None
    assert missing(["a  1", "... b"], "3 b\na 1\n") == "... b"


def test_no_day_is_written_into_a_command() -> None:
    """By the time it is read, the stream holds no message of it."""
    lines = enumerate(read((ROOT / "README.md").read_text()).script.splitlines(), 1)
    assert [n for n, line in lines if re.search(r"\b20\d\d-\d\d-\d\d", line)] == []


@pytest.fixture(scope="module")
def output(shell: Shell) -> str:
    """What all of it prints."""
    try:
        read_lines(1)
    except OperatorError as error:
        pytest.skip(str(error))
    script = read((shell.folder / "README.md").read_text()).script
    if answers(API_PORT):  # of the machine that tests
        port = free_port()
        shell.environment["NATS3_API_LISTEN"] = f"127.0.0.1:{port}"
        script = script.replace(f":{API_PORT}/", f":{port}/")
    status, output = shell.run(script)
    assert status == 0, output[-6000:]
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=shell.folder, capture_output=True, text=True)
    assert changed.stdout == "", "Files are left in the checkout"
    # The servers end with the last commands.
    status, started = shell.run(". .venv/bin/activate && nats3 dev --stack-only")
    assert status == 0, started
    return output


@pytest.mark.timeout(_TIMEOUT_S + 60)
def test_every_command_does_what_it_says(shell: Shell, output: str) -> None:
    outputs = re.split(r"\n@@(\d+)\n", output)
    by_end = {int(end): text for text, end in zip(outputs[::2], outputs[1::2], strict=False)}
    shown = read((shell.folder / "README.md").read_text()).shown
    assert {end: line for end, lines in shown.items() if (line := missing(lines, by_end[end]))} == {}
    table = " ".join(output.split())
    assert "mismatches 0" in table
    assert "to start Spark" in table
    assert "Warning" not in output
    # The API answers with the job that was made by it.
    assert '"name":"job-1"' in output.replace(" ", "")


def test_the_catalog_the_streams_and_the_lists_agree(shell: Shell, output: str) -> None:
    stack = json.loads((shell.folder / ".nats3" / "stack.json").read_text())
    with Wire(stack["nats_url"]) as wire:
        streams = {s["config"]["name"]: s["state"] for s in wire.api("STREAM.LIST")["streams"]}
    with psycopg.connect(stack["postgres_url"]) as connection:
        rows = connection.execute(
            "SELECT a.name, a.stream, count(*), sum(c.messages)::bigint FROM nats3.archive a "
            "JOIN nats3.chunk c ON c.archive_id = a.id AND c.deleted_at IS NULL GROUP BY 1, 2"
        ).fetchall()
    assert {"logs", "applogs"} <= {name for name, *_ in rows}
    for name, stream, chunks, messages in rows:
        listed = shell.json(f"chunk list {name}")
        assert (len(listed), sum(c["messages"] for c in listed)) == (chunks, messages), name
        assert messages == streams[stream]["messages"], name
    replays = shell.json("load list")
    assert {r["state"] for r in replays} == {"succeeded"}
    published = {}
    for replay in replays:
        for target in replay["targets"]:
            published[target] = published.get(target, 0) + replay["published"]
    assert published == {name: state["messages"] for name, state in streams.items() if name in published}


@pytest.mark.timeout(240)
def test_another_demo_touches_nothing_of_what_was_made_before(shell: Shell, output: str) -> None:
    before = _stands(shell)
    done = shell.json("demo --messages 5")
    assert (done["stream"], done["ok"], done["mismatches"]) == ("LOGS_2", True, 0)
    for step in ("capture", "replay"):
        parts = [done[f"{step}_{part}_s"] for part in ("dagster", "spark", "work")]
        assert all(part > 0 for part in parts)
        assert sum(parts) == pytest.approx(done[f"{step}_s"], abs=0.05)
    after = _stands(shell)
    assert {key: after[key] for key in before} == before
    assert {f["what"] for f in shell.json("doctor") if f["status"] == "fail"} == set()


def test_the_commands_of_a_production_machine(
    own_nats: NatsServer, empty_postgres_url: str, s3_server: S3Server
) -> None:
    """The block whose addresses are placeholders, with those of real servers in their places."""
    (block,) = re.findall(r"```\n(export [^`]*)```", (ROOT / "README.md").read_text())
    values = {
        "NATS3_NATS_URL": own_nats.url,
        "NATS3_POSTGRES_URL": empty_postgres_url,
        "AWS_ENDPOINT_URL_S3": s3_server.endpoint,
        "AWS_ACCESS_KEY_ID": s3_server.access_key,
        "AWS_SECRET_ACCESS_KEY": s3_server.secret_key,
    }
    script, replaced = re.subn(r"\b([A-Z0-9_]+)=\S+", lambda found: f"{found[1]}='{values[found[1]]}'", block)
    assert replaced == len(values)
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": os.environ["HOME"]}
    environment |= {name: os.environ[name] for name in ("JAVA_HOME", "NATS3_HOME") if name in os.environ}
    ran = subprocess.run(["bash", "-ec", script], env=environment, capture_output=True, text=True, timeout=120)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    with psycopg.connect(empty_postgres_url) as connection:
        assert connection.execute("select count(*) from nats3.archive").fetchone() == (0,)


def _stands(shell: Shell) -> dict[str, Any]:
    """Every stream and every archive, in full."""
    stack = json.loads((shell.folder / ".nats3" / "stack.json").read_text())
    with Wire(stack["nats_url"]) as wire:
        streams = {s["config"]["name"]: (s["created"], s["state"]) for s in wire.api("STREAM.LIST")["streams"]}
    return streams | {a["archive"]: a for a in shell.json("store list")}
