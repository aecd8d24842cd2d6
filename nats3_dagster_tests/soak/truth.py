"""The truth of a soak: which message each sequence of a stream is, as the server acknowledged it.

Invariant: no code of the product. The publisher writes it, the judge reads it: fixed records in files, because a run
has tens of millions of them.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

# A message that was acknowledged: its sequence, the hash of its subject and payload, and the number of its subject.
ACKED = np.dtype([("seq", "<i8"), ("hash", "<u8"), ("subject", "<u4")])
# A message that was sent and never acknowledged: the stream may have it.
UNKNOWN = np.dtype([("hash", "<u8"), ("subject", "<u4")])


@dataclass(frozen=True, slots=True)
class Truth:
    """What one stream was sent."""

    # ACKED records, in the order of their sequences.
    acked: np.ndarray
    # UNKNOWN records.
    unknown: np.ndarray


def hash_of(subject: bytes, payload: bytes) -> bytes:
    """8 bytes that name a message."""
    return hashlib.blake2b(payload, digest_size=8, key=subject).digest()


def hashes_of(messages: Iterable[tuple[bytes, bytes]]) -> np.ndarray:
    """The hash of each subject and payload."""
    return np.frombuffer(b"".join([hash_of(subject, payload) for subject, payload in messages]), "<u8")


def files_of(folder: Path, stream: str) -> tuple[Path, Path]:
    """The files of a stream: acknowledged, and unknown."""
    return folder / f"{stream}.acked", folder / f"{stream}.unknown"


def read_truth(folder: Path, stream: str) -> Truth:
    """All that was written so far. A record that is half written does not count."""
    acked, unknown = (
        np.frombuffer(data[: len(data) // kind.itemsize * kind.itemsize], kind)
        for data, kind in zip((_read(file) for file in files_of(folder, stream)), (ACKED, UNKNOWN), strict=True)
    )
    return Truth(acked[np.argsort(acked["seq"], kind="stable")], unknown)


def read_acked(folder: Path, stream: str, choose: Callable[[int], int]) -> tuple[int, int]:
    """The sequence and the hash of one acknowledged message: of so many, `choose` says which. It reads no other one."""
    file, _ = files_of(folder, stream)
    with file.open("rb") as records:
        records.seek(choose(file.stat().st_size // ACKED.itemsize) * ACKED.itemsize)
        (record,) = np.frombuffer(records.read(ACKED.itemsize), ACKED)
    return int(record["seq"]), int(record["hash"])


def _read(file: Path) -> bytes:
    return file.read_bytes() if file.exists() else b""
