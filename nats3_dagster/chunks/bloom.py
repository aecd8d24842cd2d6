"""The bloom filter of a chunk's subjects: a split block bloom filter as Parquet has it, of XXH64 with seed 0.

https://github.com/apache/parquet-format/blob/master/BloomFilter.md

Invariant: the same subjects give the same bytes, in any order. A lookup needs the 32 bytes of one block.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np
import numpy.typing as npt
import xxhash

from nats3_dagster.subjects import encoded

# With 10 bits a subject one lookup in 80 finds a subject that is not there. A chunk of a million subjects has 1.25 MB.
BITS_PER_SUBJECT: Final = 10
_BLOCK_BITS: Final = 256
_SALTS: Final = (
    0x47B6137B,
    0x44974D91,
    0x8824AD5B,
    0xA2B7289D,
    0x705495C7,
    0x2DF1424B,
    0x9EFC4947,
    0x5C6BFB31,
)
_WORD: Final = 0xFFFFFFFF

Hashes = npt.NDArray[np.uint64]


def hashes_of(subjects: Iterable[bytes]) -> Hashes:
    """The hash of each subject, given by its bytes on the wire."""
    return np.fromiter(map(xxhash.xxh64_intdigest, subjects), np.uint64)


def bloom_of(hashes: Hashes) -> bytes:
    """The blocks of a filter that has these hashes, at least one; the same hash may come several times."""
    # Not np.unique: it puts them into a hash table first, and takes ten times as long.
    ascending = np.sort(hashes)
    distinct = 1 + np.count_nonzero(np.diff(ascending))
    blocks = -(-distinct * BITS_PER_SUBJECT // _BLOCK_BITS)
    block = ((ascending >> np.uint64(32)) * np.uint64(blocks)) >> np.uint64(32)
    # Where the hashes of a block begin: all of them are together.
    starts = np.flatnonzero(np.diff(block, prepend=np.uint64(blocks)))
    low = ascending.astype(np.uint32)
    words = np.zeros((blocks, len(_SALTS)), np.dtype("<u4"))
    for word, salt in enumerate(_SALTS):
        bits = np.uint32(1) << (low * np.uint32(salt) >> np.uint32(27))
        words[block[starts], word] = np.bitwise_or.reduceat(bits, starts)
    return words.tobytes()


def probe(subject: str) -> tuple[int, list[int]]:
    """Returns the place and the bits of a subject, as `subjects.decoded` gives it: its block is `place * blocks >> 32`,
    and in it these bits are set, bit 0 being the lowest of the first byte."""
    digest = xxhash.xxh64_intdigest(encoded(subject))
    low = digest & _WORD
    return digest >> 32, [word * 32 + ((low * salt & _WORD) >> 27) for word, salt in enumerate(_SALTS)]


def may_have(blocks: bytes, subject: str) -> bool:
    """True if a filter may have the subject; False proves that it does not."""
    place, bits = probe(subject)
    at = (place * (len(blocks) * 8 // _BLOCK_BITS) >> 32) * (_BLOCK_BITS // 8)
    return all(blocks[at + bit // 8] >> bit % 8 & 1 for bit in bits)
