"""References: a consumer reads one message from the store itself, with a URL, pyarrow and nothing of ours."""

import hashlib
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from nats3_dagster.archive.read import points, references
from nats3_dagster.archive.read.references import Reference, reference
from nats3_dagster.errors import NotArchived, OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.points import SECOND, T0, Case, Gets, add_chunk, create, large, message
from nats3_dagster_tests.support.servers.s3_proxy import S3Proxy

# Runs a program that cannot import our package.
_ALONE = "import sys; sys.modules['nats3_dagster'] = None; exec(compile(sys.stdin.read(), 'program', 'exec'))"

PAGE = (Path(__file__).parents[2] / "docs" / "reads.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def case(s3_server: Any, bucket: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Case]:
    """An empty archive, whose store is asked through a proxy that counts."""
    monkeypatch.setenv("NATS3_POSTGRES_URL", postgres_url)
    monkeypatch.setenv("AWS_REGION", s3_server.region)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_server.secret_key)
    with S3Proxy(s3_server.endpoint) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.endpoint)
        with Workspace(Settings.load()) as workspace:
            yield Case(workspace, create(workspace, bucket), Gets(proxy))


def run_alone(program: str, folder: Path) -> dict[str, Any]:
    """What the program prints, which is a message."""
    command = [sys.executable, "-I", "-c", _ALONE]
    ran = subprocess.run(command, input=program, text=True, capture_output=True, cwd=folder, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return eval(ran.stdout, {"datetime": __import__("datetime"), "zoneinfo": __import__("zoneinfo")})


def get(url: str, byte_range: str = "") -> bytes:
    request = urllib.request.Request(url, headers={"Range": byte_range} if byte_range else {})
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def test_the_row_is_read_with_pyarrow_alone(case: Case, tmp_path: Path) -> None:
    workspace, archive, gets = case
    rows = large(1, 300)
    chunk = add_chunk(workspace, archive, rows, group_rows=100)
    ref = reference(workspace, archive, 142, 60)
    assert (ref.row_group, ref.row, ref.first_seq, ref.last_seq) == (1, 41, 101, 200)
    gets.count()
    read = run_alone(ref.python, tmp_path)
    assert (read["seq"], read["subject"], read["data"]) == (142, "logs.a", rows[141]["data"])
    assert gets.requests == [
        f"GET bytes={ref.group_start}-{ref.group_start + ref.group_bytes - 1}",
        f"GET bytes={ref.footer_start}-{ref.size - 1}",
    ]
    assert ref.footer_start + ref.footer_bytes == ref.size == chunk.meta.stored_bytes
    assert hashlib.sha256(get(ref.url)).hexdigest() == ref.sha256 == chunk.meta.sha256
    assert ref.note == ""
    for number in (ref.group_start, ref.footer_start, ref.size, ref.row, ref.row_group):
        assert str(number) in ref.how


def test_what_a_reference_costs(case: Case) -> None:
    workspace, archive, gets = case
    add_chunk(workspace, archive, large(1, 200), group_rows=100)
    add_chunk(workspace, archive, [row for row in large(201, 400) if row["seq"] % 3], group_rows=50)
    gets.count()
    reference(workspace, archive, 5, 60)
    assert gets.count() == 1
    reference(workspace, archive, 150, 60)
    assert gets.count() == 0
    # Where sequences are absent in the row group, its sequences must be read.
    reference(workspace, archive, 301, 60)
    assert gets.count() == 2
    with pytest.raises(NotArchived, match="it was deleted"):
        reference(workspace, archive, 300, 60)
    assert gets.count() == 0


def test_absent_sequences_count_no_row(case: Case, tmp_path: Path) -> None:
    rows = [message(seq) for seq in (2, 3, 7, 8, 20, 21, 40)]
    add_chunk(case.workspace, case.archive, rows, covers=(1, 50), reason="unselected", group_rows=5)
    for seq, place in [(2, (0, 0)), (7, (0, 2)), (20, (0, 4)), (21, (1, 0)), (40, (1, 1))]:
        ref = reference(case.workspace, case.archive, seq, 60)
        assert (ref.row_group, ref.row) == place
    assert run_alone(ref.python, tmp_path)["data"] == b"40"
    for seq in (1, 4, 10, 30, 50):
        with pytest.raises(NotArchived, match="the archive does not take its subject"):
            reference(case.workspace, case.archive, seq, 60)


def test_the_url_ends(case: Case) -> None:
    add_chunk(case.workspace, case.archive, [message(1)])
    before = datetime.now(UTC).replace(microsecond=0)
    ref = reference(case.workspace, case.archive, 1, 7 * 24 * 3600)
    assert ref.expires_at is not None
    assert before <= ref.expires_at - timedelta(days=7) <= datetime.now(UTC)
    assert get(ref.url, "bytes=0-3") == b"PAR1"
    short = reference(case.workspace, case.archive, 1, 1)
    deadline = time.monotonic() + 20
    with pytest.raises(urllib.error.HTTPError, match="403"):
        while time.monotonic() < deadline:
            get(short.url)
            time.sleep(0.1)
    with pytest.raises(urllib.error.HTTPError, match="403"):
        get(ref.url.replace("X-Amz-Expires=604800", "X-Amz-Expires=604799"))


@pytest.mark.parametrize("expires_s", [0, -1, 7 * 24 * 3600 + 1, 10**12])
def test_the_bounds_of_the_time(case: Case, expires_s: int) -> None:
    with pytest.raises(OperatorError, match=f"cannot expire after {expires_s} seconds. Give from 1 second to 7 days"):
        reference(case.workspace, case.archive, 1, expires_s)


def test_temporary_credentials_are_named(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    add_chunk(case.workspace, case.archive, [message(1)])
    monkeypatch.setenv("AWS_SESSION_TOKEN", "temporary")
    with Workspace(Settings.load()) as workspace:
        ref = reference(workspace, case.archive, 1, 60)
    assert ref.note == "Temporary credentials signed the URL: it ends with them, if that is earlier"


def test_a_reference_shows_its_url_where_it_is_asked_for_only(case: Case) -> None:
    add_chunk(case.workspace, case.archive, [message(1)])
    ref = reference(case.workspace, case.archive, 1, 60)
    assert ref.url not in repr(ref)
    assert "Signature" in ref.url
    assert "Signature" not in repr(ref)
    assert ref.url in ref.python


def test_a_store_that_is_a_folder(
    postgres_url: str, file_store: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS3_POSTGRES_URL", postgres_url)
    monkeypatch.setenv("NATS3_STORE_URL", file_store.url)
    with Workspace(Settings.load()) as workspace:
        archive = create(workspace, "archive")
        add_chunk(workspace, archive, large(1, 200), group_rows=100)
        ref: Reference = reference(workspace, archive, 150, 60)
    assert ref.url.startswith("file:///")
    assert ref.expires_at is None
    assert ref.note == "The store is a folder: the URL is that of a file on its machine, and does not end"
    assert run_alone(ref.python, tmp_path)["data"] == large(1, 200)[149]["data"]


# The page


def test_the_examples_of_the_page_run(case: Case, capsys: pytest.CaptureFixture[str]) -> None:
    archive = create(case.workspace, case.archive.spec.bucket, name="orders")
    add_chunk(case.workspace, archive, large(1, 300, size=50), group_rows=100)
    read, refer, *_ = EXAMPLES
    exec(compile(read, "reads.md", "exec"), {})
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(f"142 {T0 + 142 * SECOND} logs.a None b")
    assert second.startswith("120 b")
    exec(compile(refer, "reads.md", "exec"), {})
    assert "read row 41 of row group 1" in capsys.readouterr().out


def test_the_program_of_the_page_reads_the_row(case: Case, tmp_path: Path) -> None:
    """As it stands but for the URL and where the ranges are in this object."""
    rows = large(1, 300)
    add_chunk(case.workspace, case.archive, rows, group_rows=100)
    ref = reference(case.workspace, case.archive, 142, 60)
    (program,) = (example for example in EXAMPLES if example.startswith("import tempfile"))
    group = ref.group_start, ref.group_start + ref.group_bytes - 1
    footer = ref.footer_start, ref.footer_start + ref.footer_bytes - 1
    program, urls = re.subn(r"(?m)^URL = .*$", f"URL = {ref.url!r}", program)
    program, ranges = re.subn(r"(?m)^RANGES = \[.*\]  #", f"RANGES = [{group}, {footer}]  #", program)
    assert (urls, ranges) == (1, 1)
    assert run_alone(program, tmp_path)["data"] == rows[141]["data"]


def test_the_program_of_the_page_is_that_of_a_reference() -> None:
    (program,) = (example for example in EXAMPLES if example.startswith("import tempfile"))
    url = next(line for line in program.splitlines() if line.startswith("URL = ")).removeprefix("URL = ")
    values = {
        "url": url,
        "size": 607113,
        "group_start": 201904,
        "group_end": 403803,
        "footer_start": 603110,
        "footer_end": 607112,
        "row_group": 1,
        "row": 41,
        "seq": 142,
    }
    assert program == references._PYTHON.substitute(values)


def test_the_page_has_every_reason_and_note() -> None:
    notes = (references._FILE_NOTE, references._TEMPORARY_NOTE)
    assert [text for text in (*points._WHY.values(), *notes) if text not in PAGE] == []
    assert [field.name for field in fields(Reference) if f"`{field.name}`" not in PAGE] == []
