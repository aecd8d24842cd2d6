"""Options of archives: when they are captured, how long they are kept and where they are copied, for one archive and
for a rule that makes many."""

from dataclasses import dataclass, field, replace

from nats3_dagster.errors import OperatorError
from nats3_dagster.model.dagster_settings import DagsterSettings
from nats3_dagster.model.pattern import Pattern
from nats3_dagster.model.spec_table import Kind, check_length, setting

# The largest thresholds: what is beyond would be none, and overflow where it is added to sequences and times.
MOST_MESSAGES, MOST_BYTES, MOST_AGE_S = 1 << 48, 1 << 48, 3650 * 86_400
# A hundred years; and what a bigint can sum.
MOST_KEEP_S, MOST_KEEP_BYTES = 36_500 * 86_400, 1 << 60
# Each one costs a read and a write of each object.
_MOST_COPIES = 4
_BUCKET = Pattern(
    r"((gs|az)://)?[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]",
    "a bucket name",
    "Use 3 to 63 letters, digits, dots and hyphens: no s3:// and no prefix; gs:// before a bucket of Google, az:// "
    "before a container of Azure",
    schemes=("gs://", "az://"),
)
_COPY = replace(_BUCKET, noun="a bucket name for copies")
# Why the place of an archive cannot change.
PLACE = "its chunks are there, and its objects are looked for there"
# The setting of the archive's own bucket.
BUCKET = setting(
    Kind.TEXT,
    "The bucket that takes the chunks; gs://BUCKET is one of Google, az://CONTAINER one of Azure.",
    metavar="BUCKET",
    pattern=_BUCKET,
    fixed=PLACE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions(DagsterSettings):
    """Settings of one archive but for its name, its stream and its place."""

    max_messages: int = field(
        default=1_000_000,
        metadata=setting(
            Kind.COUNT,
            "A capture is due at this many uncaptured messages.",
            metavar="COUNT",
            least=1,
            most=MOST_MESSAGES,
        ),
    )
    # Of subject, header block and payload.
    max_bytes: int = field(
        default=64 << 20,
        metadata=setting(
            Kind.SIZE, "A capture is due at this many uncaptured bytes.", metavar="SIZE", least=1, most=MOST_BYTES
        ),
    )
    max_age_s: int = field(
        default=30,
        metadata=setting(
            Kind.DURATION,
            "A capture is due when the oldest uncaptured message is this old.",
            metavar="DURATION",
            least=1,
            most=MOST_AGE_S,
        ),
    )
    zstd_level: int = field(
        default=3,
        metadata=setting(Kind.COUNT, "Compression, 1 (fast) to 22 (small).", metavar="LEVEL", least=1, most=22),
    )
    # After the hour's end.
    compact_after_s: int = field(
        default=0,
        metadata=setting(
            Kind.DURATION,
            "Merge the small chunks of each hour once it is sealed and ended this long ago; 0: only when you ask for "
            "it.",
            metavar="DURATION",
            least=0,
            most=MOST_AGE_S,
            empty="never",
        ),
    )
    # Of subject, header block and payload.
    compact_below: int = field(
        default=32 << 20,
        metadata=setting(
            Kind.SIZE,
            "A chunk with this many bytes of messages is not small.",
            metavar="SIZE",
            least=1,
            most=64 << 20,
        ),
    )
    # 0: for ever.
    keep_s: int = field(
        default=0,
        metadata=setting(
            Kind.DURATION,
            "Hours that ended longer ago than this expire: their messages are removed. 0: they are kept for ever.",
            metavar="DURATION",
            least=0,
            most=MOST_KEEP_S,
            empty="for ever",
        ),
    )
    # 0: any number.
    keep_bytes: int = field(
        default=0,
        metadata=setting(
            Kind.SIZE,
            "The oldest hours expire while the archive has more stored bytes than this. 0: it may have any number.",
            metavar="SIZE",
            least=0,
            most=MOST_KEEP_BYTES,
            empty="any number",
        ),
    )
    # Buckets that have the objects under the same keys.
    copies: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            Kind.TEXTS,
            "Another bucket with a copy of each object, under the same key. An hour is sealed once it is there.",
            metavar="BUCKET",
            pattern=_COPY,
            limit=_MOST_COPIES,
        ),
    )

    def check_copies(self, bucket: str) -> None:
        """Raises OperatorError for a bucket of copies that is there twice, or is the archive's own `bucket`."""
        if len({*self.copies, bucket}) <= len(self.copies):
            hint = "Name each bucket once: the copy has the keys of the archive's own bucket"
            raise OperatorError("A copy is in the archive's own bucket, or named twice", hint, field="copies")
        check_length("copies", self.copies, _MOST_COPIES)
