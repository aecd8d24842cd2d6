"""docs/reads.md: its commands, requests and programs run as they stand, and print what the page shows.

`archive` makes what they ask for; the examples of the archive `orders` run in integration/test_references.py.
"""

import json
import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.api.app import create_app
from nats3_dagster.hours import HOUR_NS, hour_of, hour_start
from nats3_dagster.model import Archive
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support import points as made_points
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.load_jobs import listening
from nats3_dagster_tests.support.points import T0, add_chunk, message

PAGE = (Path(__file__).parents[2] / "docs" / "reads.md").read_text()
# The page's address of a server.
ADDRESS = "http://localhost:8080"
MS = 1_000_000
_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z")


def blocks(of: str, kind: str) -> list[str]:
    """The blocks of a section of the page."""
    section = PAGE.split(f"\n## {of}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(rf"```{kind}\n(.*?)```", section, re.DOTALL)


def since_yesterday() -> list[int]:
    """The sequences of the last 24 hours. The day of the page's examples is one of these once."""
    first = 1 if time.time_ns() - T0 < 24 * HOUR_NS else 4701
    return [seq for seq in range(first, 4725) if seq != 5]


def timeless(text: str) -> str:
    """With another word for each time: the messages of the test are as old as the examples want them."""
    return _TIME.sub("TIME", text)


@pytest.fixture
def archive(workspace: Workspace, bucket: str) -> Archive:
    """An archive `logs`: messages of long ago, of which the fifth was deleted; of three hours ago, and of this hour."""
    found = made_points.create(workspace, bucket)
    hour = hour_start(hour_of(time.time_ns()))

    def log(seq: int, time_ns: int) -> dict[str, Any]:
        web = seq % 3 or 3
        return message(
            seq, b"logs.web.%d" % web, b"GET / 200", time_ns=time_ns, headers=b"NATS/1.0\r\nHost: web-%d\r\n\r\n" % web
        )

    add_chunk(workspace, found, [log(seq, T0 + seq * MS) for seq in range(1, 4701) if seq != 5])
    add_chunk(workspace, found, [log(seq, hour - 3 * HOUR_NS + seq * MS) for seq in range(4701, 4721)])
    add_chunk(
        workspace,
        found,
        [
            log(4721, hour),
            message(4722, b"config.a", b"old", time_ns=hour + MS),
            message(4723, b"config.a", b"new", time_ns=hour + 2 * MS),
            message(4724, b"config.b", b"one", time_ns=hour + 3 * MS),
        ],
    )
    return found


@pytest.fixture
def url(settings: Settings, archive: Archive) -> Iterator[str]:
    with listening(create_app(settings)) as address:
        yield address


def test_each_command_prints_what_the_page_says(
    nats3: Command, archive: Archive, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (block,) = blocks("Command line", "sh")
    commands = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    assert all(words[0] == "message" for words in commands)
    outputs = [nats3.ok(*words).out for words in commands]
    # Each message of a table begins with its sequence.
    seqs = [list(map(int, re.findall(r"(?m)^\[(\d+)\] Subject: ", out))) for out in outputs]
    assert seqs[:5] == [[4711], [1], [4712], [4720], [4724, 4723]]
    assert seqs[5] == [seq for seq in since_yesterday() if seq < 4722]
    assert seqs[6] == [*range(1, 5), *range(6, 102)]
    assert seqs[7] == []
    assert "Range" in outputs[7]
    assert re.search(r"https?://\S+Signature=", outputs[7])
    shown, errors = blocks("Command line", "text")[0], re.findall(r"```\n(Error.*?)```", PAGE, re.DOTALL)
    assert timeless(outputs[0]).rstrip() == timeless(shown).rstrip()
    again = [int(seq) for seq in re.findall(r"(?m)^\[(\d+)\]", nats3.ok(*commands[6]).out)]
    assert again == list(range(102, 202))
    refusals = [
        nats3.refused("message", "get", "logs", "--seq", "5"),
        nats3.refused("message", "next", "logs", "--subject", "logs.x", "--after", "4711"),
    ]
    assert [f"1 {line}" for line in errors[0].splitlines()] == refusals


def test_each_form_of_output_is_as_the_page_says(nats3: Command, archive: Archive) -> None:
    get = ("message", "get", "logs", "--seq", "4711", "-o")
    (names,) = re.findall(r"an object with `([a-z_, ]+)`", PAGE)
    assert list(nats3.ok(*get, "json").json) == names.split(", ")
    assert nats3.ok(*get, "raw").out == "GET / 200"
    assert all(f"\n{name}:" in f"\n{nats3.ok(*get, 'yaml').out}" for name in names.split(", "))
    text = nats3.ok(*get, "json", "--text").json
    assert (text["headers"], text["data"]) == ("NATS/1.0\r\nHost: web-1\r\n\r\n", "GET / 200")


def test_each_request_answers_as_the_page_says(url: str) -> None:
    (block,) = blocks("HTTP", "sh")
    # Behind each answer, which ends without a line's end, a line of its own.
    script = re.sub(r"(?m)^curl .*$", r"\g<0>; printf '\\n@@\\n'", block.replace(ADDRESS, url))
    script = script.replace("curl ", "curl -sS --fail-with-body ")
    ran = subprocess.run(["bash", "-euc", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ran.returncode, ran.stderr) == (0, ""), ran
    answers = [answer.strip() for answer in ran.stdout.split("\n@@\n")[:-1]]
    one, at, following, last, reference = map(json.loads, answers[:5])
    (shown,) = blocks("HTTP", "json")
    assert {**json.loads(shown), "time": one["time"]} == one
    assert _TIME.fullmatch(one["time"])
    assert list(json.loads(shown)) == list(one)
    assert (at["seq"], following["seq"], last["seq"]) == (1, 4712, 4720)
    assert (reference["seq"], "X-Amz-Expires=3600" in reference["url"]) == (4711, True)
    assert [json.loads(line)["seq"] for line in answers[5].splitlines()] == list(range(4701, 4711))
    page = json.loads(answers[6])
    assert (list(page), len(answers)) == (["messages", "next", "cursor", "removed"], 7)
    assert [one["seq"] for one in page["messages"]] == since_yesterday()[10:20]


def test_each_request_of_the_table_is_there(url: str) -> None:
    """Every path and parameter that the table names is one of the server's."""
    paths = create_app(Settings.load()).openapi()["paths"]
    rows = re.findall(r"\| `GET (/archive/[^?` ]+)\??([^`]*)`(?: or `\?(\w+)=`)?", PAGE)
    assert len(rows) == 6
    for path, query, other in rows:
        names = {name for name in re.split(r"=&?", f"{query}{other + '=' if other else ''}") if name}
        known = {one["name"] for one in paths[f"/api/v1{path}"]["get"]["parameters"] if one["in"] == "query"}
        assert names <= known, (path, names - known)


def test_each_program_runs(archive: Archive, capsys: pytest.CaptureFixture[str]) -> None:
    read, resumed, frames = blocks("Python", "python")
    names: dict[str, Any] = {}
    exec(compile(read, "reads.md", "exec"), names)
    assert capsys.readouterr().out == "4721 logs.web.2 b'GET / 200'\n"
    assert names["snapshot"] == {"config.a": b"new", "config.b": b"one"}
    batches: list[Any] = []
    names |= {"token": None, "process": batches.append}
    exec(compile(resumed, "reads.md", "exec"), names)
    assert sum(batch.num_rows for batch in batches) == 4720
    batches.clear()
    exec(compile(resumed, "reads.md", "exec"), names)  # with the token of the first run
    assert batches == []
    exec(compile(frames, "reads.md", "exec"), names)
    assert names["frame"].columns == ["subject", "time"]
    assert names["table"].num_rows > 0
