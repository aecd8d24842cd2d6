"""Which versions of PySpark are supported: pyproject.toml, `make spark-versions` and docs/spark.md say the same."""

import re
import tomllib
from pathlib import Path

import pyspark
from packaging.requirements import Requirement
from packaging.version import Version

from nats3_dagster.pipeline.pyspark_features import FEATURES
from nats3_dagster_tests.spark_versions import TESTS, VERSIONS

ROOT = Path(__file__).parents[2]
TABLE = re.compile(r"^\| (4\.\d+)\.\d+ \| (.*) \|$", re.MULTILINE)


def test_the_versions_of_the_table_are_those_that_pyproject_admits() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["connect"]]
    requirements = [found for text in texts if (found := Requirement(text)).name == "pyspark"]
    assert len(requirements) == 2
    documented = [version for version, _ in TABLE.findall((ROOT / "docs" / "spark.md").read_text())]
    assert documented == list(VERSIONS) == sorted(VERSIONS, key=Version)
    for requirement in requirements:
        assert [str(each) for each in requirement.specifier if each.operator == ">="] == [f">={VERSIONS[0]}"]
        assert all(requirement.specifier.contains(f"{version}.0") for version in VERSIONS)
    # What the lock has is the newest of them.
    locked = re.search(r"^pyspark(?:\[\S+\])?==(\d+\.\d+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert locked
    assert locked[1] == VERSIONS[-1]


def test_the_table_says_what_each_version_leaves_out() -> None:
    rows = TABLE.findall((ROOT / "docs" / "spark.md").read_text())
    for version, text in rows:
        for feature in FEATURES:
            assert (feature.option in text) == (Version(version) < Version(feature.since)), (version, feature.option)


def test_each_feature_is_there_from_its_version_on() -> None:
    for feature in FEATURES:
        assert feature.is_there == (Version(pyspark.__version__) >= Version(feature.since)), feature


def test_every_file_about_spark_is_run_on_every_version() -> None:
    folder = ROOT / "nats3_dagster_tests"
    about = (
        r"^(?:from pyspark(?!\.sql import SparkSession$)|import pyspark|from nats3_dagster\.pipeline\.sources\.)"
        r"|ConnectServer\("
    )
    files = {
        str(path.relative_to(folder))
        for path in folder.rglob("test_*.py")
        if re.search(about, path.read_text(), re.MULTILINE)
    }
    assert files <= {*TESTS}
    assert all((folder / name).is_file() for name in TESTS)
