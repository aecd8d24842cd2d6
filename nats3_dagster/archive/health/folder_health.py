"""The folders of archives: does each belong to its archive, and are its chunks there?"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from nats3_dagster.archive import folder
from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.errors import Nats3Error
from nats3_dagster.model import Archive
from nats3_dagster.workspace import Workspace

AREA = "store"
# Archives that are looked at, and chunks of each: one HEAD for a chunk.
ARCHIVES, CHUNKS = 200, 3
THREADS = 8


def check(workspace: Workspace) -> Iterator[Finding]:
    """A finding for each archive with something wrong, and one for all the others. Nothing is written."""
    archives = workspace.catalog.archives.all()[:ARCHIVES]
    with ThreadPoolExecutor(THREADS, thread_name_prefix="doctor-folder") as pool:
        problems = list(filter(None, pool.map(partial(_problem, workspace), archives)))
    yield from problems
    if right := len(archives) - len(problems):
        yield Finding("ok", AREA, f"{right} archives own their folders, and have the chunks that were looked for")


def _problem(workspace: Workspace, archive: Archive) -> Finding | None:
    try:
        folder.inspect(workspace, archive)
        bucket = workspace.bucket(archive.spec.bucket)
        for chunk in workspace.catalog.chunks.select(archive, limit=CHUNKS, with_minutes=False):
            bucket.head(chunk.meta.key)
    except Nats3Error as error:
        return Finding("fail", AREA, f"Archive {archive.name}: {error.what}", error.hint)
    return None
