"""Archives as a file declares them: its keys and values checked, all of them before anything is done.

Invariant: a key that is not known is an error, and so is a value of another kind. Nothing in a file is passed over in
silence.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nats3_dagster.archive.declared import peer
from nats3_dagster.archive.declared.document import Table, misspelt, parse, place, tables_of, unknown_keys
from nats3_dagster.archive.declared.exports import entry_of_export, read_exports
from nats3_dagster.archive.declared.values import count, duration, filters, flag, size, text
from nats3_dagster.archive.job_names import archive_name
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, ExportSpec

# Problems that an error names.
_NAMED = 20
# What each archive must have, with a valid value that stands in for one which is missing or wrong while the rest is
# checked.
_REQUIRED = {"name": "name", "stream": "stream", "bucket": "bucket"}


@dataclass(frozen=True, slots=True)
class Declared:
    """An archive that a file declares."""

    spec: ArchiveSpec
    # None: left as it is.
    paused: bool | None
    # Whether a missing bucket is created.
    create_bucket: bool
    # The file and the line: `archives.yaml:12`.
    place: str
    # Of a store job of nats-s3-connector: its name as it was given, of which that of the archive is made. None: `spec`
    # has the name of the archive.
    job_name: str | None = None
    # Its exports; empty where the file has none.
    exports: tuple[ExportSpec, ...] = ()

    @property
    def name(self) -> str:
        """What the file calls it."""
        return self.job_name or self.spec.name

    def is_of(self, archive: Archive) -> bool:
        """Whether this declares the archive."""
        return archive.job_name == self.job_name if self.job_name else archive.name == self.spec.name

    @property
    def wanted(self) -> Mapping[str, Any]:
        """What the archive is to be, by field: what the file leaves out has its default, but for what a consumer says
        itself, and `paused`."""
        spec = self.spec
        wanted: dict[str, Any] = {
            "stream": spec.stream, "bucket": spec.bucket, "prefix": spec.prefix, "mode": spec.mode,
            "max_messages": spec.max_messages, "max_bytes": spec.max_bytes, "max_age_s": spec.max_age_s,
            "zstd_level": spec.zstd_level,
        }  # fmt: skip
        if spec.mode == "consumer":
            wanted["durable"] = spec.durable or spec.own_durable
        if spec.mode == "stream" or spec.subjects:
            wanted["subjects"] = spec.subjects
        return wanted if self.paused is None else wanted | {"paused": self.paused}


@dataclass(frozen=True, slots=True)
class Declarations:
    """What files declare."""

    archives: tuple[Declared, ...]
    # Of files of nats-s3-connector: what has no meaning here, as sentences.
    left_out: tuple[str, ...] = ()


@dataclass(slots=True)
class _Written:
    """What a table of a file says of an archive."""

    # By field of ArchiveSpec or Declared, without those that have a problem.
    values: dict[str, Any] = field(default_factory=dict)
    # Where each field was written, wrong ones included.
    places: dict[str, str] = field(default_factory=dict)
    problems: list[OperatorError] = field(default_factory=list)
    # Keys that misspelt ones may mean.
    meant: set[str] = field(default_factory=set)


def read(files: Iterable[tuple[str, str]], *, prune: bool = False) -> Declarations:
    """The archives of these files, each its name and its text. With `prune` a file that lists no archives is refused:
    only an empty list means none. Raises OperatorError that names every problem once with its file and line, twenty of
    them at most."""
    problems: list[OperatorError] = []
    archives: list[Declared] = []
    left_out: list[str] = []
    for file, content in files:
        try:
            root, twice = parse(content, file)
            problems += twice
            is_peers = peer.is_peers(root)
            if prune and is_peers and "store" not in root:
                raise OperatorError(
                    f"{file} lists no store jobs: to prune by it would delete every archive",
                    "Apply it without prune, or declare the archives that stay",
                )
            entries, defaults, notes = peer.entries(root, file, problems) if is_peers else _entries(root, file)
        except _Problems as several:
            problems += several.errors
            continue
        except OperatorError as error:
            problems.append(error)
            continue
        left_out += notes
        common = _written(defaults, [key for key in ARCHIVE_KEYS if key not in ("name", "exports")], file, "defaults")
        problems += common.problems
        for entry in entries:
            try:
                archives.append(_declared(entry, common, file, is_job=is_peers))
            except _Problems as several:
                problems += several.errors
    problems += _twice(archives)
    # A value of `defaults` may be wrong for several archives.
    problems = list({error.what: error for error in problems}.values())
    if len(problems) == 1:
        raise problems[0]
    if problems:
        texts = [f"{error.what} ({error.hint})" if error.hint else error.what for error in problems]
        more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
        raise OperatorError(f"{len(texts)} problems. {'; '.join(texts[:_NAMED])}{more}", "Nothing was changed")
    return Declarations(tuple(archives), tuple(left_out))


def entry_of(archive: Archive, exports: Sequence[ExportSpec] = ()) -> dict[str, Any]:
    """The archive and its exports as an entry that declares them."""
    spec = archive.spec
    entry: dict[str, Any] = {"name": spec.name, "stream": spec.stream, "bucket": spec.bucket}
    if spec.prefix:
        entry["prefix"] = spec.prefix
    if spec.subjects:
        entry["subjects"] = list(spec.subjects)
    if spec.mode != "stream":
        entry["mode"] = spec.mode
        if spec.durable and not spec.owns_durable:
            entry["consumer"] = spec.durable
    entry |= {
        "max_messages": spec.max_messages, "max_bytes": spec.max_bytes, "max_age": f"{spec.max_age_s}s",
        "zstd_level": spec.zstd_level,
    }  # fmt: skip
    entry |= {"paused": True} if archive.paused else {}
    return entry | ({"exports": [entry_of_export(spec) for spec in exports]} if exports else {})


class _Problems(Exception):
    """All problems of one entry."""

    def __init__(self, errors: Sequence[OperatorError]) -> None:
        super().__init__(errors)
        self.errors = errors


def _entries(root: Table, file: str) -> tuple[list[Table], Table, list[str]]:
    """The entries of a file in our own shape, their defaults, and what is left out. Raises _Problems."""
    problems = unknown_keys(root, ("archives", "defaults"), file, "a file of archives")
    if "archives" not in root and not misspelt(root, ("archives",)):
        problems.append(OperatorError(f"{file} declares no archives", "Begin it with archives: and a list below it"))
    defaults = root.get("defaults") or Table()
    if not isinstance(defaults, Table):
        problems.append(OperatorError(
            f"{place(file, root.lines.get('defaults', 0))}: defaults is no table",
            "Write below it the fields that all archives of the file have",
        ))  # fmt: skip
    if problems:
        raise _Problems(problems)
    return tables_of(root, "archives", file), defaults, []


def _written(table: Table, keys: Sequence[str], file: str, of: str) -> _Written:
    """What a table says, with every problem of its keys and values."""
    written = _Written(problems=unknown_keys(table, keys, file, of), meant=misspelt(table, keys))
    if table.get("subject") is not None and table.get("subjects") is not None:
        where = place(file, table.lines.get("subjects", table.line))
        written.problems.append(OperatorError(f"{where}: {of} has both subject and subjects", "Give one of them"))
    for key, value in table.items():
        if value is None or key not in _FIELDS or key not in keys:  # a key with no value, and what others read
            continue
        field_name, kind = _FIELDS[key]
        written.places[field_name] = place(file, table.lines.get(key, table.line))
        try:
            written.values[field_name] = kind(key, value)
        except OperatorError as error:
            written.problems.append(_at(error, written.places[field_name]))
    return written


def _declared(entry: Table, defaults: _Written, file: str, *, is_job: bool) -> Declared:
    """The archive of an entry; `is_job`: its name is that of a job. Raises _Problems: those of the entry, without
    those of `defaults`."""
    at = place(file, entry.line)
    own = _written(entry, ARCHIVE_KEYS, file, "an archive")
    exports, problems = read_exports(entry, file)
    problems = [*own.problems, *problems]
    places, values = defaults.places | own.places, defaults.values | own.values
    meant = own.meant | defaults.meant
    if missing := [key for key in _REQUIRED if key not in places and key not in meant]:
        problems.append(OperatorError(f"{at}: an archive without {' and '.join(missing)}", "Add what is missing"))
    paused, create_bucket = values.pop("paused", None), values.pop("create_bucket", False)
    if ">" in values.get("subjects", ()):
        values["subjects"] = ()
    job_name = str(values["name"]) if is_job and "name" in values else None
    if job_name is not None:
        try:
            values["name"] = archive_name(job_name)
        except OperatorError as error:
            problems.append(_at(error, places["name"]))
            del values["name"]
    spec = _spec(values, places, at, problems)
    if problems or (defaults.problems and spec is None):
        raise _Problems(problems)
    assert spec
    return Declared(spec, paused, create_bucket, at, job_name, exports)


def _spec(
    values: Mapping[str, Any], places: Mapping[str, str], at: str, problems: list[OperatorError]
) -> ArchiveSpec | None:
    """The archive of these values; None, with its problems added, if they do not make one. What is missing or wrong is
    left out, so that all the other values are checked as well."""
    rest = dict(values)
    is_whole = all(key in rest for key in _REQUIRED)
    while True:
        given: dict[str, Any] = {**_REQUIRED, **rest}
        if given.get("durable"):
            given.setdefault("mode", "consumer")
        try:
            spec = ArchiveSpec(**given)
        except OperatorError as error:
            is_whole = False
            # A consumer may be right for the mode that was meant.
            if error.field != "durable" or "mode" in rest or "mode" not in places:
                problems.append(_at(error, places.get(error.field, at)))
            if rest.pop(error.field, None) is None:
                return None
        else:
            return spec if is_whole else None


def _twice(archives: Sequence[Declared]) -> list[OperatorError]:
    first: dict[tuple[str, str], Declared] = {}
    problems: list[OperatorError] = []
    for declared in archives:
        # Two jobs may have names of which the same name of an archive is made; a job and an archive of it may not.
        own, made = ("archive", declared.spec.name), ("archive of a job", declared.spec.name)
        if declared.job_name is None:
            other = first.get(made) or first.setdefault(own, declared)
        else:
            other = first.get(own) or first.setdefault(("job", declared.job_name), declared)
            first.setdefault(made, declared)
        if other is not declared:
            what = f"{declared.place}: archive {declared.name} is declared at {other.place} already"
            problems.append(OperatorError(what, "Leave one of them out, or give it another name"))
    return problems


def _at(error: OperatorError, at: str) -> OperatorError:
    return OperatorError(f"{at}: {error.what}", error.hint)


# The field of ArchiveSpec or Declared that a key is, and how its value is read. In the order of `nats3 store create`.
_FIELDS: Mapping[str, tuple[str, Callable[[str, Any], Any]]] = {
    "name": ("name", text), "stream": ("stream", text), "bucket": ("bucket", text), "prefix": ("prefix", text),
    "subjects": ("subjects", filters), "subject": ("subjects", filters), "mode": ("mode", text),
    "consumer": ("durable", text), "max_messages": ("max_messages", count), "max_bytes": ("max_bytes", size),
    "max_age": ("max_age_s", duration), "zstd_level": ("zstd_level", count), "paused": ("paused", flag),
    "create_bucket": ("create_bucket", flag),
}  # fmt: skip
ARCHIVE_KEYS = (*_FIELDS, "exports")
