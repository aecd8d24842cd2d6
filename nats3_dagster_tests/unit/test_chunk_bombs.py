"""Chunks that somebody else wrote, whose few bytes stand for gigabytes: each is refused by name and takes no memory."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from nats3_dagster.chunks import open_chunk, pages
from nats3_dagster.errors import ChunkError
from nats3_dagster.model import SeqRange
from nats3_dagster_tests.support.bombs import dictionary_of, shared_prefix, with_column, with_metadata, with_more_rows
from nats3_dagster_tests.support.chunks import START, write

ROWS = 3000
PLAIN, _ = write(
    [(seq, START + seq, f"logs.{seq % 3}", None, b"%d" % seq) for seq in range(1, ROWS + 1)], SeqRange(1, ROWS)
)
BOMBS: dict[str, tuple[Callable[[], bytes], str]] = {
    "large values": (
        lambda: with_column(PLAIN, "data", pa.array([bytes(50_000)] * ROWS), use_dictionary=False),
        "its column data takes [0-9,]{9,} bytes when it is read, and may take",
    ),
    "a large subject many times": (
        lambda: dictionary_of(PLAIN, "subject", "x" * 100_000),
        "its subjects take 300,000,000",
    ),
    "a large payload many times": (
        lambda: dictionary_of(PLAIN, "data", b"x" * 100_000),
        "the values of its column data may take 300,012,000 bytes",
    ),
    "a large header block many times": (
        lambda: dictionary_of(PLAIN, "headers", b"x" * 100_000),
        "the values of its column headers may take 300,012,000 bytes",
    ),
    "more rows than messages": (
        lambda: with_more_rows(PLAIN, 100),
        "does not have the row groups that its metadata names",
    ),
    "a claim of 1 TB": (
        lambda: with_metadata(PLAIN, payload_bytes=str(10**12)),
        "of 1,000,000,000,000 bytes, more than",
    ),
}
READ = """
import sys
from nats3_dagster.chunks import open_chunk
from nats3_dagster.errors import ChunkError
for path in sys.argv[1:]:
    try:
        open_chunk(open(path, "rb").read()).verify()
        print("read")
    except ChunkError as error:
        print(error.what)
print(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
"""


def test_what_expands_is_refused_and_takes_no_memory(tmp_path: Path) -> None:
    paths: list[str] = []
    for number, (make, _) in enumerate(BOMBS.values()):
        data = make()
        assert len(data) < 2_000_000
        paths.append(str(tmp_path / f"{number}.parquet"))
        Path(paths[-1]).write_bytes(data)
    ran = subprocess.run([sys.executable, "-c", READ, *paths], capture_output=True, text=True, check=True)
    *told, peak = ran.stdout.splitlines()
    for text, (_, wanted) in zip(told, BOMBS.values(), strict=True):
        assert re.search(wanted, text), (text, wanted)
    assert int(peak) < 250_000, f"{peak} KB"


def test_values_that_share_bytes_and_values_without_a_message_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = open_chunk(PLAIN)
    start, length = reader.span(0, ["seq"])
    column = memoryview(PLAIN)[start : start + length]
    pages.check_pages(column, "seq", ROWS, reader.footer)
    with pytest.raises(ChunkError, match=r"its column seq has 3,000 values for 2,999 messages"):
        pages.check_pages(column, "seq", ROWS - 1, reader.footer)
    # Page headers: type 2^32, which a decoder cuts to 0; a field with a number of its own; one after the last.
    for header in b"\x15\x80\x80\x80\x80\x20", b"\x05\x02\x00", b"\x15\x00\xf5\x00":
        with pytest.raises(ChunkError, match="cannot be told apart"):
            pages.check_pages(memoryview(header + bytes(column)), "seq", ROWS, reader.footer)
    front_coded = shared_prefix(PLAIN, "data", 1000)
    assert sum(batch.num_rows for batch in open_chunk(front_coded).batches()) == ROWS
    monkeypatch.setattr(pages, "_MOST_SHARED", 1 << 20)
    with pytest.raises(ChunkError, match=r"the values of its column data may take [0-9,]{9,} bytes"):
        next(open_chunk(front_coded).batches())
