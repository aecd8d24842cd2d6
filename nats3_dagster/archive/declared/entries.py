"""Archives as a file declares them: its keys and values checked, all of them before anything is done.

Invariant: a key that is not known is an error, and so is a value of another kind. Nothing in a file is passed over in
silence.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nats3_dagster.archive.declared import nats_s3_connector
from nats3_dagster.archive.declared.accounts import DeclaredRule, read_rule, rules_twice
from nats3_dagster.archive.declared.document import Table, misspelt, parse, place, tables_of, unknown_keys
from nats3_dagster.archive.declared.exports import entry_of_export, read_exports
from nats3_dagster.archive.declared.replays import read_replays
from nats3_dagster.archive.declared.settings import Written, entry, keys_of, missing, with_place, written
from nats3_dagster.archive.lifecycle.job_names import archive_name
from nats3_dagster.errors import OperatorError
from nats3_dagster.model import Archive, ArchiveSpec, ExportSpec, ReplayPreset
from nats3_dagster.model.archive_spec import with_mode
from nats3_dagster.model.dagster_settings import DAGSTER_SETTINGS
from nats3_dagster.model.spec_table import Kind, setting, settings_of

# Problems that an error names.
_NAMED = 20
# What each archive must have, with a valid value that stands in for one which is missing or wrong while the rest is
# checked.
_REQUIRED = {one.name: one.name for one in settings_of(ArchiveSpec) if one.required}
# What an entry has of an archive though it is the default, so that readers see what they can set.
_SHOWN = {one.name for one in settings_of(ArchiveSpec) if one.kind.is_number} - DAGSTER_SETTINGS


@dataclass(frozen=True, slots=True)
class Declared:
    """An archive that a file declares."""

    spec: ArchiveSpec
    # The file and the line: `archives.yaml:12`.
    place: str
    paused: bool | None = field(default=None, metadata=setting(Kind.FLAG, "Stop its sensors. Without it unchanged."))
    create_bucket: bool = field(default=False, metadata=setting(Kind.FLAG, "Create buckets that do not exist."))
    # Of a store job of nats-s3-connector: its name as it was given; the archive's name is made from it. None: `spec`
    # has the name of the archive.
    job_name: str | None = None
    # Its exports; empty where the file has none.
    exports: tuple[ExportSpec, ...] = ()
    # Its replays by name; empty where the file has none.
    replays: tuple[ReplayPreset, ...] = ()

    @property
    def name(self) -> str:
        """Returns the file's name for it."""
        return self.job_name or self.spec.name

    def is_of(self, archive: Archive) -> bool:
        """True if this declares the archive."""
        return archive.job_name == self.job_name if self.job_name else archive.name == self.spec.name

    @property
    def wanted(self) -> Mapping[str, Any]:
        """Returns the intended archive, by field: a field that the file leaves out has its default, but for the fields
        that a consumer decides, and `paused`."""
        spec = self.spec
        wanted = {one.name: getattr(spec, one.name) for one in settings_of(ArchiveSpec) if one.name != "name"}
        if spec.mode == "consumer":
            wanted["durable"] = spec.durable or spec.own_durable
        else:
            del wanted["durable"]
        if spec.mode == "consumer" and not spec.subjects:
            del wanted["subjects"]
        wanted["replays"] = self.replays
        return wanted if self.paused is None else wanted | {"paused": self.paused}


@dataclass(frozen=True, slots=True)
class Declarations:
    """The declarations of files."""

    archives: tuple[Declared, ...]
    # The rules for the account, in the order of the files: of two that take one stream the first has it.
    accounts: tuple[DeclaredRule, ...] = ()
    # True if a file lists archives, or rules, an empty list included: without a list nothing of them is to be pruned.
    lists_archives: bool = True
    lists_accounts: bool = False
    # Of files of nats-s3-connector: what has no meaning here, as sentences.
    left_out: tuple[str, ...] = ()


def read(files: Iterable[tuple[str, str]], *, prune: bool = False) -> Declarations:
    """The archives and rules of these files, each its name and its text. With `prune` a file of nats-s3-connector that
    lists no store jobs is refused: only an empty list means none. Raises OperatorError that names every problem once
    with its file and line, twenty of them at most."""
    problems: list[OperatorError] = []
    archives: list[Declared] = []
    rules: list[DeclaredRule] = []
    lists = set[str]()
    left_out: list[str] = []
    for file, content in files:
        try:
            root, twice = parse(content, file)
            problems += twice
            is_peers = nats_s3_connector.is_peers(root)
            if prune and is_peers and "store" not in root:
                raise OperatorError(
                    f"{file} lists no store jobs: to prune by it would delete every archive",
                    "Apply it without prune, or declare the archives that stay",
                )
            entries, defaults, notes = (
                nats_s3_connector.entries(root, file, problems) if is_peers else _entries(root, file)
            )
            accounts = tables_of(root, "accounts", file, "rule") if "accounts" in root else []
        except _Problems as several:
            problems += several.errors
            continue
        except OperatorError as error:
            problems.append(error)
            continue
        left_out += notes
        lists |= {"archives"} if is_peers else {"archives", "accounts"} & set(root)
        common = written(defaults, _DEFAULT_KEYS, file, "defaults")
        problems += common.problems
        for table in entries:
            try:
                archives.append(_declared(table, common, file, is_job=is_peers))
            except _Problems as several:
                problems += several.errors
        for table in accounts:
            rule, wrong = read_rule(table, common, file)
            problems += wrong
            rules += [rule] if rule else []
    problems += [*_twice(archives), *rules_twice(rules)]
    # A value of `defaults` may be wrong for several archives.
    problems = list({error.what: error for error in problems}.values())
    if len(problems) == 1:
        raise problems[0]
    if problems:
        texts = [f"{error.what} ({error.hint})" if error.hint else error.what for error in problems]
        more = f"; and {len(texts) - _NAMED} more" if len(texts) > _NAMED else ""
        raise OperatorError(f"{len(texts)} problems. {'; '.join(texts[:_NAMED])}{more}", "Nothing was changed")
    return Declarations(tuple(archives), tuple(rules), "archives" in lists, "accounts" in lists, tuple(left_out))


def entry_of(archive: Archive, exports: Sequence[ExportSpec] = ()) -> dict[str, Any]:
    """The archive, its exports and its replays by name as an entry that declares them."""
    spec = replace(archive.spec, durable=None) if archive.spec.owns_durable else archive.spec
    declared = entry(spec, always=_SHOWN) | ({"paused": True} if archive.paused else {})
    if exports:
        declared["exports"] = [entry_of_export(spec) for spec in exports]
    return declared | ({"replays": [one.document() for one in archive.presets]} if archive.presets else {})


class _Problems(Exception):
    """All problems of one entry."""

    def __init__(self, errors: Sequence[OperatorError]) -> None:
        super().__init__(errors)
        self.errors = errors


def _entries(root: Table, file: str) -> tuple[list[Table], Table, list[str]]:
    """The entries of a file in our own shape, their defaults, and what is left out. Raises _Problems."""
    problems = unknown_keys(root, ("archives", "accounts", "defaults"), file, "a file of archives")
    if not {"archives", "accounts"} & set(root) and not misspelt(root, ("archives", "accounts")):
        problems.append(OperatorError(f"{file} declares no archives", "Begin it with archives: and a list below it"))
    defaults = root.get("defaults") or Table()
    if not isinstance(defaults, Table):
        problems.append(
            OperatorError(
                f"{place(file, root.lines.get('defaults', 0))}: defaults is no table",
                "Write below it the fields that all archives of the file have",
            )
        )
    if problems:
        raise _Problems(problems)
    return tables_of(root, "archives", file) if "archives" in root else [], defaults, []


def _declared(table: Table, defaults: Written, file: str, *, is_job: bool) -> Declared:
    """The archive of an entry; `is_job`: its name is that of a job. Raises _Problems: those of the entry, without
    those of `defaults`."""
    at = place(file, table.line)
    own = written(table, _KEYS, file, "an archive", beside=["exports", "replays"])
    exports, problems = read_exports(table, file)
    replays, wrong = read_replays(table, file)
    problems += wrong
    both = Written(defaults.values | own.values, defaults.places | own.places, meant=own.meant | defaults.meant)
    values, places = both.values, both.places
    problems = [*own.problems, *problems, *missing(both, ArchiveSpec, at, "an archive")]
    paused, create_bucket = values.pop("paused", None), values.pop("create_bucket", False)
    job_name = str(values["name"]) if is_job and "name" in values else None
    if job_name is not None:
        try:
            values["name"] = archive_name(job_name)
        except OperatorError as error:
            problems.append(with_place(error, places["name"]))
            del values["name"]
    spec = _spec(values, places, at, problems)
    if problems or (defaults.problems and spec is None):
        raise _Problems(problems)
    assert spec
    return Declared(spec, at, paused, create_bucket, job_name, exports, replays)


def _spec(
    values: Mapping[str, Any], places: Mapping[str, str], at: str, problems: list[OperatorError]
) -> ArchiveSpec | None:
    """The archive of these values; None, with its problems added, if they do not make one. What is missing or wrong is
    left out, so that all the other values are checked as well."""
    rest = dict(values)
    is_whole = all(key in rest for key in _REQUIRED)
    while True:
        try:
            spec = ArchiveSpec(**with_mode(_REQUIRED | rest))
        except OperatorError as error:
            is_whole = False
            # A consumer may be right for the mode that was meant.
            if error.field != "durable" or "mode" in rest or "mode" not in places:
                problems.append(with_place(error, places.get(error.field, at)))
            if rest.pop(error.field, None) is None:
                return None
        else:
            return spec if is_whole else None


def _twice(archives: Sequence[Declared]) -> list[OperatorError]:
    first: dict[tuple[str, str], Declared] = {}
    problems: list[OperatorError] = []
    for declared in archives:
        # Two job names may map to the same archive name; a job and an archive may not.
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


_KEYS = keys_of(ArchiveSpec, Declared)
# What all archives of a file may have by its defaults: all but the name.
_DEFAULT_KEYS = {key: one for key, one in _KEYS.items() if one.name != "name"}
ARCHIVE_KEYS = (*_KEYS, "exports", "replays")
