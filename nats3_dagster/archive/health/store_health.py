"""The store: does a bucket hold what it is given, and do archives own their folders and have their chunks there?"""

import hashlib
import secrets
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial

from nats3_dagster.archive.health.finding import Finding
from nats3_dagster.archive.stored import erasure_records, folder
from nats3_dagster.errors import AccessRefused, Nats3Error, StoreError
from nats3_dagster.model import Archive
from nats3_dagster.objects import Bucket, StoreOptions, bucket_exists, delete_versions, identity
from nats3_dagster.settings import Settings
from nats3_dagster.steps import Next
from nats3_dagster.workspace import Workspace

AREA = "store"
# A store without the lock lets 1 to 8 of 8 win (Swift without the project's fix); in one round of four it is one, by
# luck: in all eight that is one doctor of 65,000. Five rounds of 64 writers prove as much, and take four times as long.
WRITERS, ROUNDS = 8, 8
# Tried at a time.
BUCKETS = 4
# Archives that are looked at, and chunks of each: one HEAD for a chunk.
ARCHIVES, CHUNKS_LOOKED_AT = 200, 3
FOLDERS = 8
# How long an object may be missing in a copy: the open hour's are copied with its seal.
COPY_LATE_S = 2 * 3600


def check(settings: Settings, buckets: Sequence[str]) -> Iterator[Finding]:
    """Each of these buckets; without any, only whether the store can be reached with these credentials."""
    options = settings.store
    clouds = {there.cloud: there for there in map(options.of, buckets) if there.cloud is not None}
    if options.folder is None and (not buckets or any(options.of(name).cloud is None for name in buckets)):
        yield Finding("ok", AREA, f"S3 identity: {identity(options)}")
    for there in clouds.values():
        yield Finding("ok", AREA, f"{there.place}: {identity(there)}")
    for name, there in options.elsewhere:
        yield Finding("ok", AREA, f"Bucket {name} is in {there.place}: {identity(there)}")
    if not buckets:
        # The name is free, and the answer tells reachability and credentials from each other.
        bucket_exists(options, f"nats3-doctor-{secrets.token_hex(8)}")
        yield Finding("ok", AREA, f"{options.place} answers")
        untried = "No archive has a bucket yet, so none was tried"
        if settings.is_embedded("store_url", "s3_endpoint"):
            yield Finding("ok", AREA, untried)
        else:
            yield Finding("warn", AREA, untried, Next.DOCTOR_BUCKET())
        return

    def report_of(name: str) -> list[Finding]:
        return list(_check_bucket(options, name))

    with ThreadPoolExecutor(BUCKETS, thread_name_prefix="doctor-bucket") as pool:
        for report in pool.map(report_of, buckets):
            yield from report


def _check_bucket(options: StoreOptions, name: str) -> Iterator[Finding]:
    if not bucket_exists(options, name):
        yield Finding("fail", AREA, f"The bucket {name!r} does not exist in {options.of(name).place}", "Create it")
        return
    folder = f".nats3-doctor/{secrets.token_hex(8)}"
    try:
        yield from _try(options, name, folder)
        yield from _versions_problem(options, name, folder)
    except StoreError as error:
        yield Finding("fail", AREA, f"Bucket {name}: {error.what}", error.hint)


def _try(options: StoreOptions, name: str, folder: str) -> Iterator[Finding]:
    bucket = Bucket(options, name)
    keys = [f"{folder}/object", *(f"{folder}/race-{n}" for n in range(ROUNDS))]
    data = secrets.token_bytes(4096)
    sha256 = hashlib.sha256(data).hexdigest()
    try:
        bucket.put_new(keys[0], data, sha256)
        whole, part, listed = bucket.get(keys[0]), bucket.get_range(keys[0], 1000, 96), dict(bucket.list(folder))
        if bytes(whole) != data or bytes(part) != data[1000:1096] or listed != {keys[0]: len(data)}:
            yield Finding(
                "fail",
                AREA,
                f"Bucket {name}: what was written is not what is read or listed",
                "Do not archive into this store",
            )
            return
        bucket.delete(keys[0])
        if bucket.exists(keys[0]):
            yield Finding(
                "fail", AREA, f"Bucket {name}: an object is there after it was deleted", "Look at versioning and locks"
            )
            return
        yield Finding("ok", AREA, f"Bucket {name} of {options.of(name).place}: writes, reads, lists and deletes")
        yield _race(bucket, keys[1:], data)
    finally:
        for key in keys:
            bucket.delete(key)


def _versions_problem(options: StoreOptions, name: str, folder: str) -> Iterator[Finding]:
    """A finding where versions of what was tried out stay, or may do so."""
    try:
        delete_versions(options, name, folder)
    except AccessRefused as error:
        yield Finding(
            "ok",
            AREA,
            f"Bucket {name}: if it keeps versions, those of {folder}/ stay, and so would those of erased messages: "
            f"{error.what}. {error.hint}",
        )


def _race(bucket: Bucket, keys: list[str], data: bytes) -> Finding:
    with ThreadPoolExecutor(WRITERS, thread_name_prefix="doctor") as pool:
        for key in keys:
            winners = sum(pool.map(bucket.create, [key] * WRITERS, [data] * WRITERS))
            if winners != 1:
                break
        else:
            once = f"of {WRITERS} concurrent create-only PUTs one wins, {ROUNDS} times of {ROUNDS}"
            return Finding("ok", AREA, f"Bucket {bucket.name}: {once}")
    return Finding(
        "warn",
        AREA,
        f"Bucket {bucket.name}: of {WRITERS} concurrent create-only PUTs {winners} won: If-None-Match is no lock "
        "here. Postgres still holds the promise: no overlapping chunk can be committed, and a key names its content",
        "Nothing is at stake for nats3; do not let other software rely on create-only PUTs here",
    )


def check_folders(workspace: Workspace) -> Iterator[Finding]:
    """A finding for each archive with something wrong, and one for all the others. Nothing is written."""
    archives = workspace.catalog.archives.all()[:ARCHIVES]
    with ThreadPoolExecutor(FOLDERS, thread_name_prefix="doctor-folder") as pool:
        problems = list(filter(None, pool.map(partial(_folder_problem, workspace), archives)))
    yield from problems
    yield from filter(None, map(partial(_copies_problem, workspace), archives))
    if right := len(archives) - len(problems):
        yield Finding("ok", AREA, f"{right} archives own their folders, and have the chunks that were looked for")


def _copies_problem(workspace: Workspace, archive: Archive) -> Finding | None:
    late = [lag for lag in workspace.catalog.copies.lags(archive).values() if lag.oldest and _is_late(lag.oldest)]
    if not late:
        return None
    missing = ", ".join(f"{lag.objects:,} objects in {lag.bucket}" for lag in late)
    return Finding("warn", AREA, f"Archive {archive.name}: its copies miss {missing}", Next.COPY(archive=archive.name))


def _is_late(oldest: datetime) -> bool:
    return datetime.now(UTC) - oldest > timedelta(seconds=COPY_LATE_S)


def _folder_problem(workspace: Workspace, archive: Archive) -> Finding | None:
    try:
        own = folder.inspect(workspace, archive)
        if own and (erasures := erasure_records.unknown(workspace, own)):
            return Finding(
                "fail",
                AREA,
                f"Archive {archive.name}: {erasures:,} erasures are written down beside its chunks that the catalog "
                "does not know: it is older",
                Next.FINISH_ERASURES(archive=archive.name),
            )
        if archive.name in workspace.catalog.erasures.unfinished_archives():
            return Finding(
                "warn",
                AREA,
                f"Archive {archive.name}: messages were erased, and may still be in the store",
                Next.CHECK_ERASURES(archive=archive.name),
            )
        bucket = workspace.bucket(archive.spec.bucket)
        for chunk in workspace.catalog.chunks.select(archive, limit=CHUNKS_LOOKED_AT, with_minutes=False):
            bucket.head(chunk.meta.key)
    except Nats3Error as error:
        return Finding("fail", AREA, f"Archive {archive.name}: {error.what}", error.hint)
    return None
