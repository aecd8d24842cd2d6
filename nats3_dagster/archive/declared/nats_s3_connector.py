"""The configuration file of nats-s3-connector: its store jobs as entries of a file of archives."""

from nats3_dagster.archive.declared.document import Table, place, tables_of, unknown_keys
from nats3_dagster.errors import OperatorError
from nats3_dagster.settings.names import ALIKE, nearest

_SECTIONS = ("log", "server", "nats", "s3", "postgres")
_JOB = ("name", "stream", "consumer", "subject", "bucket", "prefix", "batch", "encoding")
_CODECS = ("json", "binary", "Json", "JSON", "bin", "Binary")


def is_peers(root: Table) -> bool:
    """True if this is a file of nats-s3-connector. It may be without store jobs, which are mostly made over HTTP."""
    return not {"archives", "accounts", "defaults"} & set(root) and bool({"store", *_SECTIONS} & set(root))


def entries(root: Table, file: str, problems: list[OperatorError]) -> tuple[list[Table], Table, list[str]]:
    """The jobs of a file as entries, no defaults, and what has no meaning here; keys that such a file does not have
    are added to `problems`. Raises OperatorError if the jobs are no list."""
    problems += unknown_keys(root, ("store", *_SECTIONS), file, "a file of nats-s3-connector")
    sections = [key for key in _SECTIONS if key in root]
    notes = (
        [f"{file}: left out {', '.join(sections)}, which set up nats-s3-connector itself: see docs/configuration.md"]
        if sections
        else []
    )
    if "store" not in root:
        notes.append(f"{file}: there are no store jobs in it: GET /store/jobs of its server lists those made over HTTP")
        return [], Table(), notes
    jobs = tables_of(root, "store", file)
    if any(job.get("encoding") for job in jobs):
        notes.append(f"{file}: left out encoding: every archive is of Parquet objects")
    return [_entry(job, file, problems) for job in jobs], Table(), notes


def _entry(job: Table, file: str, problems: list[OperatorError]) -> Table:
    problems += unknown_keys(job, _JOB, file, "a store job")
    entry = Table(line=job.line, lines=dict(job.lines))
    for key in ("name", "stream", "consumer", "subject", "bucket", "prefix"):
        if job.get(key) is not None:
            entry[key] = job[key]
    for key in job:
        # It is refused, and its value is read as what it may be meant to be.
        if key not in _JOB and (near := nearest(key, _JOB, ALIKE)):
            entry.setdefault(near, job[key])
    batch, encoding = _table(job, "batch", file, problems), _table(job, "encoding", file, problems)
    problems += unknown_keys(batch, ("max_count", "max_bytes"), file, "batch")
    problems += unknown_keys(encoding, ("codec",), file, "encoding")
    if (codec := encoding.get("codec")) not in (None, *_CODECS):
        at = place(file, encoding.lines.get("codec", job.line))
        problems.append(OperatorError(f"{at}: there is no codec {codec!r}", "Write json or binary"))
    for theirs, ours in (("max_count", "max_messages"), ("max_bytes", "max_bytes")):
        if batch.get(theirs) is not None:
            entry[ours] = batch[theirs]
            entry.lines[ours] = batch.lines.get(theirs, job.line)
    return entry


def _table(job: Table, key: str, file: str, problems: list[OperatorError]) -> Table:
    value = job.get(key)
    if value is not None and not isinstance(value, Table):
        at = place(file, job.lines.get(key, job.line))
        problems.append(OperatorError(f"{at}: {key} is no table", "Write it as a table"))
        return Table()
    return value or Table()
