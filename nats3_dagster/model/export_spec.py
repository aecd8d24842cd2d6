"""An export: files for other systems, made of an archive's hours as soon as they are sealed."""

import re
from dataclasses import dataclass, field
from string import Formatter
from typing import Literal

from nats3_dagster.errors import OperatorError, blaming
from nats3_dagster.model.destination import Destination, parse_destination
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.model.spec_table import Kind, check_settings, setting
from nats3_dagster.path_part import path_part
from nats3_dagster.subjects import check_filter

Format = Literal["parquet", "csv", "ndjson", "raw", "messages"]
Compression = Literal["gzip", "zstd", "snappy", "none"]


def default_path(minutes: int = 60, *, has_key: bool = False) -> str:
    """The path of an export that gives none: engines read its folders as the columns of one table."""
    key, minute = "key={key}/" if has_key else "", "minute={minute}/" if minutes < 60 else ""
    return f"{key}date={{date}}/hour={{hour}}/{minute}{{first}}-{{last}}.{{ext}}"


_DEFAULT_PATHS = {default_path(minutes, has_key=has_key) for minutes in (60, 1) for has_key in (True, False)}
# What a path template may name.
PATH_NAMES = ("archive", "export", "stream", "key", "date", "hour", "minute", "first", "last", "part", "ext")
DECODERS = ("raw", "text", "json", "msgpack", "avro", "protobuf")
INTERVALS = (1, 5, 15, 60)
# The folder of a destination that has what the runs of exports say of themselves, and what did not decode. Engines
# pass over names that begin with an underscore.
OWN_FOLDER = "_exports"
MAX_EXPORT_NAME = 100

_EXTENSIONS: dict[str, str] = {
    "parquet": "parquet",
    "csv": "csv",
    "ndjson": "ndjson",
    "raw": "bin",
    "messages": "ndjson",
}
_SUFFIXES: dict[str, str] = {"gzip": ".gz", "zstd": ".zst", "none": ""}
_COLUMNS = ("csv", "parquet")


@dataclass(frozen=True, slots=True)
class ExportSpec:
    """An export as declared. Raises OperatorError if a field is invalid."""

    # Unique in its archive.
    name: str = field(
        metadata=setting(
            Kind.TEXT,
            "Lower-case letters, digits and _.",
            metavar="NAME",
            pattern=Pattern(
                r"[a-z0-9_]+",
                "an export name",
                "Use lower-case letters, digits and _ only",
                longest=MAX_EXPORT_NAME,
            ),
        )
    )
    destination: str = field(
        metadata=setting(
            Kind.ADDRESS,
            "Where the files go: s3://bucket/prefix, gs://bucket/prefix, az://container/prefix or file:///folder.",
            metavar="URL",
            key="to",
        )
    )
    # Empty for every subject of the archive.
    subjects: tuple[str, ...] = field(
        default=(), metadata=setting(Kind.FILTERS, "Export only these subjects (NATS filters).", metavar="FILTER")
    )
    decode: str = field(
        default="raw",
        metadata=setting(
            Kind.TEXT,
            "raw, text, json, msgpack, avro, protobuf, or your function package.module:function.",
            metavar="DECODER",
        ),
    )
    # An absolute path.
    schema: str | None = field(
        default=None,
        metadata=setting(
            Kind.FILE, "A file: JSON Schema, Avro schema, or descriptors.pb#package.Message.", metavar="FILE"
        ),
    )
    key: str | None = field(
        default=None,
        metadata=setting(
            Kind.TEXT,
            "Split files by subject:2, header:Name, header:Name:default, field:a.b or decoder. Without it no split.",
            metavar="KEY",
            pattern=Pattern(
                r"subject:[1-9][0-9]{0,2}(,[1-9][0-9]{0,2})*|header:[^\s:]+(:[^\s:]+)?|field:[^.\s]+(\.[^.\s]+)*|decoder",
                "a key",
                "Use subject:2, header:Name, header:Name:default, field:a.b or decoder",
            ),
        ),
    )
    format: Format = field(
        default="ndjson", metadata=setting(Kind.CHOICE, "The format of the files.", metavar="FORMAT")
    )
    compression: Compression = field(
        default="gzip",
        metadata=setting(Kind.CHOICE, "The compression of the files; snappy for Parquet alone.", metavar="CODEC"),
    )
    # Empty for the fields that the rows have.
    columns: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            Kind.TEXTS, "The fields to take, for csv and parquet.", metavar="FIELD", limit=2000, empty="all"
        ),
    )
    # See PATH_NAMES. A default path becomes that of the key and the interval.
    path: str = field(
        default=default_path(),
        metadata=setting(
            Kind.TEXT, "The path of a file below the destination, with names in braces.", metavar="TEMPLATE"
        ),
    )
    interval_minutes: int = field(
        default=60,
        metadata=setting(Kind.COUNT, "1, 5, 15 or 60: minutes whose messages share a file.", metavar="MINUTES"),
    )
    max_undecoded: int = field(
        default=0,
        metadata=setting(
            Kind.COUNT, "Fail an hour if more of its messages than this cannot be decoded.", metavar="COUNT", least=0
        ),
    )
    escape_formulas: bool = field(
        default=False,
        metadata=setting(
            Kind.FLAG, "For csv: put an apostrophe before a field or name that a spreadsheet would run as a formula."
        ),
    )

    def __post_init__(self) -> None:
        check_settings(self)
        parse_destination(self.destination)
        with blaming("subjects"):
            for subject in self.subjects:
                check_filter(subject)
        self._check_decode()
        self._check_key()
        self._check_format()
        if self.interval_minutes not in INTERVALS:
            raise OperatorError(
                f"interval_minutes is {self.interval_minutes}",
                "Use 1, 5, 15 or 60",
                field="interval_minutes",
            )
        if self.path in _DEFAULT_PATHS:
            object.__setattr__(self, "path", self._default_path)
        self._check_path()

    @property
    def _default_path(self) -> str:
        return default_path(self.interval_minutes, has_key=bool(self.key))

    @property
    def place(self) -> Destination:
        """The destination in parts."""
        return parse_destination(self.destination)

    def place_of(self, archive: str, stream: str) -> Destination:
        """Returns the place of all files of the export, and no other export's: the destination, with the folders in
        front of the path that are the same for each file."""
        place, folder = self.place, self.folder(archive, stream)
        return place._replace(prefix="/".join(filter(None, (place.prefix, folder)))) if folder else place

    def folder(self, archive: str, stream: str) -> str:
        """The folders in front of the path that are the same for each file; empty where there are none."""
        fixed = list[str]()
        for part in self.path.split("/")[:-1]:
            if not {name for _, name, _, _ in Formatter().parse(part)} <= {None, "archive", "export", "stream"}:
                break
            fixed.append(part.format(archive=archive, export=self.name, stream=path_part(stream)))
        return "/".join(fixed)

    @property
    def ext(self) -> str:
        """The extension of its files, without the leading dot."""
        return _EXTENSIONS[self.format] + ("" if self.format == "parquet" else _SUFFIXES[self.compression])

    def _check_decode(self) -> None:
        if self.decode not in DECODERS and not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", self.decode):
            raise OperatorError(
                f"There is no decoder {self.decode!r}",
                f"Use {', '.join(DECODERS)}, or a function of yours as package.module:function",
                field="decode",
            )
        if self.decode in ("avro", "protobuf") and not self.schema:
            raise OperatorError(f"The decoder {self.decode} needs a schema", "Name its file", field="schema")
        if self.schema is not None and self.decode not in ("json", "avro", "protobuf"):
            raise OperatorError(
                f"The decoder {self.decode} takes no schema",
                "Leave it out; json, avro and protobuf take one",
                field="schema",
            )
        if self.decode == "protobuf" and not re.fullmatch(r"[^#]+#[A-Za-z_][\w.]*", self.schema or ""):
            raise OperatorError(
                f"{self.schema!r} does not name a message of a descriptor set",
                "Write it as orders.pb#package.Message; protoc makes the file, with its options descriptor_set_out and "
                "include_imports",
                field="schema",
            )
        if self.schema and not self.schema.startswith("/"):
            raise OperatorError(
                f"The schema {self.schema!r} is a relative path: it would be another file where the export runs",
                "Give its absolute path",
                field="schema",
            )

    def _check_key(self) -> None:
        if self.key is None:
            return
        if self.key.startswith("field:") and self.decode == "raw":
            raise OperatorError(
                "The decoder raw makes no fields to split by", "Use another decoder, or subject:2", field="key"
            )
        if self.key == "decoder" and self.decode in DECODERS:
            raise OperatorError(
                f"The decoder {self.decode} gives no key", "Use a function of yours, or subject:2", field="key"
            )

    def _check_format(self) -> None:
        if self.compression == "snappy" and self.format != "parquet":
            raise OperatorError(
                f"Files of the format {self.format} do not have the compression snappy",
                "Use gzip, zstd or none",
                field="compression",
            )
        if self.columns and self.format not in _COLUMNS:
            raise OperatorError(
                f"Files of the format {self.format} have no columns",
                "Leave them out, or use csv or parquet",
                field="columns",
            )
        if self.escape_formulas and self.format != "csv":
            raise OperatorError(
                f"Files of the format {self.format} have no formulas to escape",
                "Leave it out, or use csv",
                field="escape_formulas",
            )
        if "" in self.columns or len(set(self.columns)) < len(self.columns):
            raise OperatorError("A column is empty or twice in the columns", "Name each once", field="columns")

    def _check_path(self) -> None:
        """Raises OperatorError unless each file gets a path of its own, below the destination."""
        hint = f"Write it like {self._default_path}"
        try:
            fields = [(text, name, spec, conversion) for text, name, spec, conversion in Formatter().parse(self.path)]
        except ValueError:
            raise OperatorError(f"The path {self.path!r} has a brace too many", hint, field="path") from None
        names: set[str] = set()
        for _, name, spec, conversion in fields:
            if name is None:
                continue
            if name not in PATH_NAMES or spec or conversion:
                raise OperatorError(
                    f"The path has the unknown name {{{name}}}"
                    if name not in PATH_NAMES
                    else f"The path has more than the name in {{{name}}}",
                    f"It may have {', '.join(PATH_NAMES)}",
                    field="path",
                )
            names.add(name)
        parts = self.path.split("/")
        if {"", ".", ".."} & {*parts} or parts[0] == OWN_FOLDER:
            raise OperatorError(
                f"The path {self.path!r} has an empty part, . or .., or begins with {OWN_FOLDER}", hint, field="path"
            )
        if re.search("[\0-\x1f\x7f-\x9f\ud800-\udfff]", self.path) or len(self.path) > 500:
            raise OperatorError("The path has a character that no path may have, or more than 500", hint, field="path")
        for name, needed in (
            ("key", self.key is not None),
            ("date", True),
            ("hour", True),
            ("minute", self.interval_minutes < 60),
        ):
            if needed and name not in names:
                raise OperatorError(
                    f"The path has no {{{name}}}, so that files would have one name", hint, field="path"
                )
        if not names & {"first", "last", "part"}:
            raise OperatorError(
                "The path has none of {first}, {last} and {part}, so that files would have one name",
                hint,
                field="path",
            )


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The result of a run of one hour."""

    archive: str
    export: str
    # YYYY-MM-DD-HH:00, UTC.
    hour: str
    # The files that the hour has now, without those of undecoded messages.
    files: int
    # The messages that are in them, and those of the hour that a decoder of the user dropped on purpose.
    messages: int
    dropped: int
    # In the files of undecoded messages.
    undecoded: int
    # Of the files.
    bytes: int
    # The version of the files (see Made).
    content: str
    # The files that were written or replaced, and those of an earlier run that were removed.
    written: int
    removed: int
    seconds: float = 0.0
