"""`nats3 chunk`: the objects of an archive. List, look at, verify, repair.

The rule kept here: `verify` believes nothing. It fetches every object and compares it with what the catalog keeps.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nats3_dagster.cli import chunk_views
from nats3_dagster.cli.options import ArchiveName, Hours, Output
from nats3_dagster.cli.progress import bar
from nats3_dagster.cli.terminal import Format, Size, note, show, show_one
from nats3_dagster.cli.wording import WORDS
from nats3_dagster.errors import ChunkError, Nats3Error, ObjectMissing, OperatorError, StoreError
from nats3_dagster.hours import hour_start

if TYPE_CHECKING:
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.model import Archive, Chunk, ChunkMeta
    from nats3_dagster.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Chunks: the objects that hold an archive's messages.")
# Chunks fetched while one is checked: at 64 MiB a chunk, more would be memory and no speed.
AHEAD = 2
PAGE = 200


@app.command("list")
def list_(name: ArchiveName, hour: Hours = None, output: Output = Format.table) -> None:
    """The chunks of an archive, in the order of the stream. Their object keys are in `-o json`."""
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    with Catalog.connect(Settings.load().postgres) as catalog:
        chunks = _chosen(catalog, catalog.archives.get(name), hour)
    show(output, [chunk_views.summary(c) for c in chunks], chunk_views.LIST)


@app.command()
def get(
    name: ArchiveName,
    chunk: Annotated[str, typer.Argument(metavar="ID|KEY", help="Id or object key of the chunk.")],
    output: Output = Format.table,
) -> None:
    """One chunk: what it holds, which run made it, which replays published it."""
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    with Catalog.connect(settings.postgres) as catalog:
        archive = catalog.archives.get(name)
        found = (
            catalog.chunks.get(int(chunk)) if chunk.isdecimal() else catalog.chunks.by_key(archive.spec.bucket, chunk)
        )
        if found is None or found.meta.archive != name:
            raise OperatorError(f"Archive {name} has no chunk {chunk}", f"See its chunks: nats3 chunk list {name}")
        replays = catalog.replays.of_chunk(found.id)
    view = chunk_views.chunk(found, replays, settings.dagster_url)
    show_one(output, view, chunk_views.lines(view))


@app.command()
def verify(name: ArchiveName, hour: Hours = None, output: Output = Format.table) -> None:
    """Fetch every chunk and manifest, and compare them with the catalog: hash, range, counts, messages. Exit status 1
    if one is bad."""
    from nats3_dagster.archive.seal import verify_seals
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    with Catalog.connect(settings.postgres) as catalog:
        archive = catalog.archives.get(name)
        chunks, found = _looked_at(settings, catalog, archive, hour)
        bad: list[dict[str, Any]] = [
            {"id": c.id, "hour": c.meta.hour, "key": c.meta.key, "error": error.what, "hint": error.hint_in(WORDS)}
            for c, error in found
        ]
        seals = [s for s in catalog.seals.select(archive, hours=hour or None) if s.valid]
        for seal, error in verify_seals(settings.store, seals):
            if error is not None:
                note(f"Bad manifest of {seal.hour}: {error.text_in(WORDS)}")
                bad.append(
                    {"id": None, "hour": seal.hour, "key": seal.key, "error": error.what, "hint": error.hint_in(WORDS)}
                )
    view = {
        "archive": name,
        "chunks": len(chunks),
        "manifests": len(seals),
        "messages": sum(c.meta.messages for c in chunks),
        "stored_bytes": sum(c.meta.stored_bytes for c in chunks),
        "bad": bad,
    }
    show_one(output, view, view | {"stored_bytes": Size(view["stored_bytes"]), "bad": len(bad)})
    if bad:
        raise ChunkError(
            f"{len(bad)} of {len(chunks) + len(seals)} objects of archive {name} are not what was written",
            f"Bring those objects back from a copy of the bucket, or capture chunks again while the stream has them: "
            f"nats3 chunk repair {name}",
        )


@app.command()
def repair(name: ArchiveName, hour: Hours = None, output: Output = Format.table) -> None:
    """Verify chunks, and capture again what those held that are missing or damaged, while the stream still has it. Exit
    status 1 if some of it is gone."""
    from nats3_dagster.archive.repair import Repair
    from nats3_dagster.archive.source import source_state
    from nats3_dagster.catalog import Catalog
    from nats3_dagster.jetstream.link import Link
    from nats3_dagster.settings import Settings

    settings = Settings.load()
    with Catalog.connect(settings.postgres) as catalog:
        archive = catalog.archives.get(name)
        with Link(settings.nats) as link:
            state = source_state(catalog, link, archive)
        chunks, bad = _looked_at(settings, catalog, archive, hour)
        missing = sum(isinstance(error, ObjectMissing) for _, error in bad)
        if not hour and missing == len(chunks) > 1:
            raise OperatorError(
                f"None of the {missing} objects of archive {name} is in {settings.store.place}",
                "Is it the store that they were written to? If they are gone for good, name the hours with --hour",
            )
        found = Repair.of([chunk for chunk, _ in bad], state, settings.store)
        for chunk in found.too_late:
            note(f"Chunk {chunk.id} is older than what stream {state.name} has: it begins at {state.first_seq:,}")
        captured = found.run(settings, catalog, archive) if found.possible else 0
    lost = found.messages - captured
    view = {
        "archive": name, "chunks": len(chunks), "bad": len(bad), "repaired": len(found.possible),
        "messages": captured, "lost": lost,
    }  # fmt: skip
    show_one(output, view, view)
    if found.as_written:
        raise ChunkError(
            f"{len(found.as_written)} chunks of archive {name} cannot be read, and are what was written",
            f"Nothing of them was changed; what is wrong is said above and by nats3 chunk verify {name}",
        )
    if found.too_late:
        raise ChunkError(
            f"{len(found.too_late)} bad chunks of archive {name} hold what the stream no longer has",
            "Bring their objects back from a copy of the bucket",
        )
    if lost:
        raise ChunkError(
            f"{lost:,} messages of the bad chunks were deleted in stream {state.name} since they were captured",
            f"They are gaps of the reason deleted now; nats3 store get {name} counts them",
        )


def _looked_at(
    settings: "Settings", catalog: "Catalog", archive: "Archive", hours: Sequence[str] | None
) -> tuple[tuple["Chunk", ...], list[tuple["Chunk", Nats3Error]]]:
    """The chunks chosen, and of them the bad ones, each told when it is found."""
    chunks, bad = _chosen(catalog, archive, hours), list[tuple["Chunk", Nats3Error]]()
    with bar(f"verify {archive.name}", "chunks") as told:
        for done, (chunk, error) in enumerate(_verified(settings, _detailed(catalog, archive, hours)), 1):
            told(done, len(chunks))
            if error is not None:
                note(f"Bad chunk {chunk.id}, {chunk.meta.hour}, sequences {chunk.meta.covers}: {error.text_in(WORDS)}")
                bad.append((chunk, error))
    return chunks, bad


def _detailed(catalog: "Catalog", archive: "Archive", hours: Sequence[str] | None) -> Iterator["Chunk"]:
    """The chunks with all that the catalog keeps of each, page by page: subjects are many."""
    page: tuple[Chunk, ...] | None = None
    while page is None or len(page) == PAGE:
        after = (page[-1].meta.incarnation, page[-1].meta.covers.last) if page else None
        page = catalog.chunks.select(
            archive, hours=hours or None, with_subjects=True, with_deleted=True, after=after, limit=PAGE
        )
        yield from page


def _verified(settings: "Settings", chunks: Iterator["Chunk"]) -> Iterator[tuple["Chunk", Nats3Error | None]]:
    """Each chunk with what is wrong with it. A store that cannot be reached is no bad chunk: it raises StoreError."""
    from nats3_dagster.objects import Bucket

    buckets: dict[str, Bucket] = {}
    waiting: deque[tuple[Chunk, Future[memoryview]]] = deque()
    with ThreadPoolExecutor(AHEAD, thread_name_prefix="fetch") as pool:
        while True:
            while len(waiting) <= AHEAD and (chunk := next(chunks, None)) is not None:
                bucket = buckets.setdefault(chunk.meta.bucket, Bucket(settings.store, chunk.meta.bucket))
                waiting.append((chunk, pool.submit(bucket.get, chunk.meta.key)))
            if not waiting:
                return
            chunk, future = waiting.popleft()
            try:
                _check(future.result(), chunk.meta)
                yield chunk, None
            except (ChunkError, ObjectMissing) as error:
                yield chunk, error
            except StoreError:
                pool.shutdown(cancel_futures=True)
                raise


def _check(data: memoryview, expect: "ChunkMeta") -> None:
    """Raises ChunkError unless the object is, to the last message, what the catalog has."""
    from nats3_dagster.chunks.read import open_chunk

    seen = open_chunk(data, expect).verify()
    for what in ("deleted", "subjects", "minutes"):
        kept = getattr(expect, what)
        if kept is not None and kept != getattr(seen, what):
            raise ChunkError(
                f"The catalog has other {what} for {expect.key} than the chunk holds",
                "Restore the catalog from a backup",
            )


def _chosen(catalog: "Catalog", archive: "Archive", hours: Sequence[str] | None) -> tuple["Chunk", ...]:
    for hour in hours or ():
        hour_start(hour)
    chunks = catalog.chunks.select(archive, hours=hours or None)
    if unknown := sorted({*(hours or ())} - {c.meta.hour for c in chunks}):
        raise OperatorError(
            f"Archive {archive.name} has nothing of the hour {', '.join(unknown[:3])}",
            f"Capture it, or see what there is: nats3 chunk list {archive.name}",
        )
    return chunks
