"""Take out of the image's environment what no process of it needs: for each kind of file, the reason.

    python3 deploy/slim.py /opt/nats3        in the image's build, before Spark's classes are archived

It fails where a pattern finds nothing: a library has changed then, and its line is to be looked at again.
"""

import hashlib
import importlib.util
import os
import platform
import py_compile
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

# Patterns below site-packages.
_PARTS = (
    # Tests of libraries and headers for compilers.
    "pandas/tests",
    "numpy/**/tests",
    "sqlalchemy/testing",
    "alembic/testing",
    "pyarrow/tests",
    "pyarrow/_pyarrow_cpp_tests.*",
    "pyarrow/include",
    "pyarrow/includes",
    "pyarrow/src",
    "pyarrow/*.p[xy][dix]",
    # RPC of other programs, which nothing here speaks.
    "pyarrow/libarrow_flight.so*",
    "pyarrow/libarrow_python_flight.so*",
    "pyarrow/_flight.*.so",
    # What a browser's debugger asks for, and a film.
    "dagster_webserver/webapp/build/**/*.map",
    "dagster_webserver/webapp/build/*.mp4",
    # A second way to zstd, for other Pythons than CPython.
    "zstandard/_cffi.*.so",
    # Machine learning, whose jars go as well; pandas' API on Spark, which nothing calls; examples; PySpark once more,
    # for clusters that have no packages.
    "pyspark/ml",
    "pyspark/mllib",
    "pyspark/pandas",
    "pyspark/examples",
    "pyspark/data",
    "pyspark/python/lib/*.zip",
    # Clients of asyncio; Dagster's launcher and the stores use the others.
    "kubernetes/aio",
    "azure/identity/aio",
    "azure/storage/blob/aio",
    "azure/storage/blob/_generated/aio",
    # Hive as Iceberg's catalog, which also needs Thrift, and the lock has none.
    "hive_metastore",
    # Colours for other languages than Python, in which tracebacks are shown.
    "pygments/lexers/[!_ps]*.py",
    "pygments/lexers/_[!_m]*.py",
)
# Jars of PySpark by the beginning of their names: parts of Spark that nothing here starts.
_JARS = (
    # The shells of Spark Connect, Scala and Hive.
    "connect-repl",
    "spark-repl_",
    "scala-compiler-",
    "jline-",
    "hive-beeline-",
    "hive-cli-",
    "hive-jdbc-",
    "super-csv-",
    # A metastore of Hive and its database: spark.sql.catalogImplementation is in-memory. ORC needs hive-storage-api.
    "spark-hive",
    "hive-exec-",
    "hive-metastore-",
    "hive-serde-",
    "hive-service-rpc-",
    "hive-common-",
    "hive-shims",
    "derby",
    "datanucleus-",
    "HikariCP-",
    "javax.jdo-",
    "jdo-api-",
    "libfb303-",
    "libthrift-",
    # Machine learning and graphs.
    "spark-mllib",
    "spark-graphx_",
    "breeze",
    "spire",
    "cats-kernel_",
    "algebra_",
    "JTransforms-",
    "JLargeArrays-",
    "arpack",
    "lapack-",
    "blas-",
    # Clusters of Hadoop, and several masters of Spark that elect one by ZooKeeper.
    "spark-yarn_",
    "curator-",
    "zookeeper-",
)
# Code that is made by a generator, and that nobody reads in a traceback: compiled modules are enough.
_GENERATED = ("kubernetes/client",)
# Services of AWS that something here calls: stores, logins, and Glue and DynamoDB as Iceberg catalogs.
_AWS = {"s3", "sts", "sso", "sso-oidc", "signin", "glue", "dynamodb"}
# Machines in the names of native libraries inside jars. The rest of such a jar stays as it is.
_MACHINES = {"x86_64": ("amd64", "x86_64", "linux64"), "aarch64": ("aarch64",)}
# Of Spark's jars, seconds since 1970.
_TIME = 1_600_000_000
_FOREIGN = ("freebsd", "sunos", "aix", "android", "musl")
_NATIVE = (".so", ".dll", ".dylib", ".jnilib")
_WITH_NATIVE = ("rocksdbjni-", "zstd-jni-", "snappy-java-", "netty-tcnative-boringssl", "netty-transport-native-")


def main(environment: Path) -> None:
    (packages,) = environment.glob("lib/python3*/site-packages")
    for pattern in _PARTS:
        _remove(packages, pattern)
    jars = packages / "pyspark" / "jars"
    for name in _JARS:
        _remove(jars, f"{name}*")
    for service in (packages / "botocore" / "data").iterdir():
        if service.is_dir() and service.name not in _AWS:
            shutil.rmtree(service)
    for name in _WITH_NATIVE:
        for jar in jars.glob(f"{name}*"):
            _only_here(jar)
    for folder in _GENERATED:
        _only_compiled(packages / folder)
    for library in packages.rglob("*.so*"):
        _strip(library)
    _link_copies(packages / "pyarrow")
    # As the Dockerfile does with Java, and says why.
    for path in (*jars.iterdir(), jars):
        os.utime(path, (_TIME, _TIME))


def _remove(folder: Path, pattern: str) -> None:
    found = list(folder.glob(pattern))
    if not found:
        sys.exit(f"deploy/slim.py: nothing is {pattern} any more")
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.exists():
            path.unlink()
            if path.suffix == ".py":
                Path(importlib.util.cache_from_source(str(path))).unlink(missing_ok=True)


def _only_here(jar: Path) -> None:
    """Leave out of the jar native libraries for other systems; a jar of nothing else goes."""
    with zipfile.ZipFile(jar) as source:
        names = [entry for entry in source.infolist() if entry.filename.endswith(_NATIVE)]
        others = {entry.filename for entry in names if not _is_here(entry.filename)}
        if names and len(others) == len(names):
            jar.unlink()
            return
        new = jar.with_suffix(".new")
        with zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as target:
            for entry in source.infolist():
                if entry.filename not in others:
                    target.writestr(entry, source.read(entry))
    shutil.copystat(jar, new)
    new.replace(jar)


def _only_compiled(folder: Path) -> None:
    """Leave of each module what Python would compile again."""
    for source in list(folder.rglob("*.py")):
        compiled = Path(importlib.util.cache_from_source(str(source)))
        py_compile.compile(str(source), cfile=str(source.with_suffix(".pyc")), doraise=True)
        compiled.unlink(missing_ok=True)
        source.unlink()


def _link_copies(folder: Path) -> None:
    """Make copies of a library in one folder links: a wheel has no links, and Arrow gives a library three names."""
    kept: dict[tuple[str, str], Path] = {}
    for library in sorted(folder.glob("*.so*")):
        key = (library.name.partition(".so")[0], hashlib.sha256(library.read_bytes()).hexdigest())
        first = kept.setdefault(key, library)
        if first is not library:
            library.unlink()
            library.symlink_to(first.name)


def _is_here(name: str) -> bool:
    words = name.lower().replace("\\", "/")
    if not words.endswith(".so") or any(word in words for word in _FOREIGN):
        return False
    return any(machine in words for machine in _MACHINES[platform.machine()])


def _strip(library: Path) -> None:
    """Take symbols for debuggers out of a library that is mostly made of them; others stay as they came."""
    if library.is_symlink() or not library.is_file():
        return
    before, new = library.stat(), library.with_suffix(".stripped")
    subprocess.run(["strip", "--strip-debug", "-o", str(new), str(library)], check=True)
    if new.stat().st_size > before.st_size * 0.8:
        new.unlink()
        return
    shutil.copystat(library, new)
    new.replace(library)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
