"""Samples of `perf` by library: where the processor was in the workers' own code."""

import subprocess
from collections import Counter
from pathlib import Path

WORKERS_OWN = "workers"
# What a function's name begins with, where one library has another one inside: Arrow brings zstd along.
_BY_FUNCTION = {
    "zstd": ("ZSTD_", "HUF_", "FSE_", "HIST_", "XXH"),
    "copies, malloc": ("__memmove", "__memcpy", "__memset"),
}
# Words in the path of a library, in the order in which they are looked for.
_BY_PATH = {
    "hash": ("libcrypto", "_sha2"),
    "Arrow": ("arrow", "parquet", "libstdc++", "_compute.", "lib.cpython"),
    "numpy": ("numpy", "multiarray", "_umath"),
    "S3 client": ("obstore",),
    "copies, malloc": ("libc.so", "libc-", "ld-linux"),
    "Python": ("python", "uvloop", "loop.cpython"),
}


def library_shares(file: Path) -> dict[str, float]:
    """The share of each library in the samples, the sum of which is 1; all of it is `workers` without samples."""
    if not file.exists():
        return {WORKERS_OWN: 1.0}
    command = ["perf", "script", "-i", str(file), "-F", "ip,sym,dso"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    counts = Counter(library(line) for line in text.splitlines() if line.strip())
    return {name: count / counts.total() for name, count in counts.items()} or {WORKERS_OWN: 1.0}


def library(sample: str) -> str:
    """The library of a sample: `<address> <function> (<path>)`."""
    function, _, path = sample.strip().partition(" ")[2].rpartition(" (")
    for name, begins in _BY_FUNCTION.items():
        if function.strip().startswith(begins):
            return name
    return next((name for name, words in _BY_PATH.items() if any(word in path for word in words)), "others")
