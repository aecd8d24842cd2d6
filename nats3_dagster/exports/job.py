"""An export of an hour as its tasks get it, and what they bring back. All of it pickles."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from nats3_dagster.model import OWN_FOLDER, Chunk, ExportSpec
from nats3_dagster.objects import OutletOptions, StoreOptions

# What a task holds at a time: the payloads of a group of chunks. One chunk may have more by itself.
GROUP_BYTES = 64 << 20
GROUP_MESSAGES = 1_000_000
# A key with a different value for each message would make a file for each message.
MAX_FILES = 10_000
# What says which export a place belongs to.
OWNER_PATH = f"{OWN_FOLDER}/owner.json"


@dataclass(frozen=True, slots=True)
class Group:
    """Chunks of an hour that one task exports: neighbours of one incarnation."""

    # Counts the groups of the hour, from 0.
    number: int
    chunks: tuple[Chunk, ...]
    # In front of sequences in names, where the hour has chunks of several incarnations; else empty.
    mark: str


@dataclass(frozen=True, slots=True)
class ExportJob:
    """The common input of all tasks of an hour."""

    archive: str
    # The UUID of the archive's job.
    archive_id: str
    stream: str
    hour: str
    spec: ExportSpec
    # The content of the schema's file.
    schema: bytes | None
    # Where the chunks are, and the place that the files go to (ExportSpec.place_of).
    store: StoreOptions
    outlet: OutletOptions
    # A folder of the outlet that only this run uses.
    staging: str

    @property
    def place(self) -> str:
        """The URL of the place."""
        return self.spec.place_of(self.archive, self.stream).url


class ExportFile(NamedTuple):
    """One file of an export, as a manifest has it."""

    path: str  # below the place
    bytes: int
    sha256: str
    messages: int
    first_seq: int
    last_seq: int


class StagedFile(NamedTuple):
    """A file that is written and not yet in its place."""

    staged: str  # where it is, below the place
    file: ExportFile


@dataclass(frozen=True, slots=True)
class GroupResult:
    """The result for the messages of a group."""

    number: int
    files: tuple[StagedFile, ...]
    undecoded_file: StagedFile | None
    messages: int
    dropped: int
    undecoded: int
    # The first undecoded message and why.
    first_reason: str


def own_folder(archive: str, export: str) -> str:
    """Returns the folder, below an export's place, in which it keeps what it says of itself."""
    return f"{OWN_FOLDER}/{archive}/{export}"


def groups_of(chunks: Sequence[Chunk]) -> tuple[Group, ...]:
    """The chunks of an hour, in the order of the stream, in groups. They follow from the chunks alone, not from how
    many tasks there are: so do the names of the files."""
    lives = {chunk.meta.incarnation for chunk in chunks}
    packs: list[list[Chunk]] = []
    size = messages = 0
    for chunk in chunks:
        meta = chunk.meta
        size, messages = size + meta.payload_bytes, messages + meta.messages
        new_life = bool(packs) and packs[-1][0].meta.incarnation != meta.incarnation
        if not packs or new_life or size > GROUP_BYTES or messages > GROUP_MESSAGES:
            packs.append([])
            size, messages = meta.payload_bytes, meta.messages
        packs[-1].append(chunk)
    return tuple(
        Group(number, tuple(pack), f"{pack[0].meta.incarnation.token}-" if len(lives) > 1 else "")
        for number, pack in enumerate(packs)
    )
