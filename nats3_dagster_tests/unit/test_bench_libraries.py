"""Which library a sample of `perf` counts for."""

from pathlib import Path

import pytest

from nats3_dagster_tests.bench.libraries import WORKERS_OWN, library, library_shares

VENV = "/opt/venv/lib/python3.11/site-packages"


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        (f"7f76 ZSTD_compressBlock_doubleFast ({VENV}/pyarrow/libarrow.so.2600)", "zstd"),
        (f"7f76 arrow::BaseBinaryBuilder<arrow::BinaryType>::Append ({VENV}/pyarrow/libarrow.so.2600)", "Arrow"),
        (f"7f76 [unknown] ({VENV}/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so)", "numpy"),
        (f"7f76 [unknown] ({VENV}/obstore/_obstore.abi3.so)", "S3 client"),
        ("7f76 __memmove_avx512_unaligned_erms (/usr/lib/x86_64-linux-gnu/libc.so.6)", "copies, malloc"),
        ("7f76 malloc (/usr/lib/x86_64-linux-gnu/libc.so.6)", "copies, malloc"),
        ("7f76 [unknown] (/usr/lib/x86_64-linux-gnu/libcrypto.so.3)", "hash"),
        ("7f76 _PyEval_EvalFrameDefault (/opt/python/lib/libpython3.11.so.1.0)", "Python"),
        ("7f76 _PyEval_EvalFrameDefault (/usr/bin/python3.12)", "Python"),
        ("7f76 [unknown] ([vdso])", "others"),
    ],
)
def test_a_sample_counts_for_the_library_that_the_processor_was_in(sample: str, name: str) -> None:
    assert library(sample) == name


def test_without_samples_the_workers_stand_in_one_row(tmp_path: Path) -> None:
    assert library_shares(tmp_path / "perf.data") == {WORKERS_OWN: 1.0}
