"""The judge of tables: what an Iceberg table lists, beside the archive's live chunks.

It shares no code with the product: the Iceberg catalog is asked by SQL, metadata and manifests are read by pyiceberg.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any

import psycopg
from pyiceberg.table import StaticTable

from nats3_dagster_tests.faults.judge import Finding

# The address of the table's metadata file.
_METADATA = "select metadata_location from iceberg_tables where catalog_name = %s and table_name = %s"
# Key, messages, size and hour of each live chunk.
_LIVE = """
select c.key, c.messages, c.stored_bytes, c.hour from nats3.chunk c join nats3.archive a on a.id = c.archive_id
where a.name = %s and a.deleted_at is null and c.deleted_at is null
"""


def read_table(lake: psycopg.Connection[Any], catalog: str, name: str) -> StaticTable:
    """The table as it is now."""
    row = lake.execute(_METADATA, (catalog, name)).fetchone()
    assert row, "the table is gone"
    return StaticTable.from_metadata(row[0])


def listed(table: StaticTable) -> list[tuple[str, int, int, str]]:
    """Path, rows, size and hour of each data file; a manifest of deletes is a file without rows."""
    snapshot = table.current_snapshot()
    files: list[tuple[str, int, int, str]] = []
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        if int(manifest.content):
            files.append((manifest.manifest_path, 0, 0, "deletes"))
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            files.append((file.file_path, file.record_count, file.file_size_in_bytes, str(file.partition[0])))
    return files


def live(catalog: psycopg.Connection[Any], archive: str) -> list[tuple[str, int, int, str]]:
    """Key, messages, size and hour of each live chunk."""
    return [(row[0], row[1], row[2], row[3]) for row in catalog.execute(_LIVE, (archive,))]


def judge_table(
    files: Iterable[tuple[str, int, int, str]], chunks: Iterable[tuple[str, int, int, str]], root: str
) -> list[Finding]:
    """Every difference: after a sync that succeeded, the table's files are exactly the live chunks."""
    has = Counter(files)
    should = Counter((f"{root}/{key}", messages, size, hour) for key, messages, size, hour in chunks)
    missing, surplus = should - has, has - should
    twice = sum(n - 1 for n in Counter(path for path, *_ in has.elements()).values())
    findings = []
    if missing:
        rows = sum(messages for _, messages, _, _ in missing.elements())
        text = f"{missing.total()} live chunks are not in the table: {next(iter(missing))}"
        findings.append(Finding("lost", rows, text))
    if surplus:
        rows = sum(file[1] for file in surplus.elements())
        kind = "doubled" if twice else "silent"
        findings.append(Finding(kind, rows, f"{surplus.total()} files are no live chunk: {next(iter(surplus))}"))
    return findings


def judge_guard(table: StaticTable) -> list[Finding]:
    """Other engines must be kept from deleting chunks."""
    if table.properties.get("gc.enabled") == "false":
        return []
    return [Finding("silent", 1, "gc.enabled is not false after a sync that succeeded")]
