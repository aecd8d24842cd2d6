"""Pages that say how Spark reads an archive by its own means, with jars that nats3 does not need: docs/iceberg.md and
docs/query.md. `make spark-versions` fetches the jars; without them, or where there is none for this Spark, this is left
out."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict

from nats3_dagster.workspace import Workspace
from nats3_dagster_tests.support.commands import Command
from nats3_dagster_tests.support.levels import ERRORS, message
from nats3_dagster_tests.support.stored import made, store
from nats3_dagster_tests.support.tables import LATER, logs, numbers, put, rows

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
JARS = ROOT / ".nats3" / "jars"
SPARK = ".".join(version("pyspark").split(".")[:2])
ICEBERG, QUERY = ((ROOT / "docs" / name).read_text() for name in ("iceberg.md", "query.md"))
# A session as any user has one. Its settings come as JSON.
SESSION = """
import json, sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
for key, value in json.loads(sys.argv[1]).items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
"""


def jars(page: str) -> list[str]:
    """The jars that the row of this Spark names."""
    row = re.search(rf"^\| {re.escape(SPARK)} \| (.*) \|$", page, re.MULTILINE)
    if not row:
        pytest.skip(f"there are no jars of this kind for PySpark {SPARK}")
    files: list[Path] = []
    for group, name, release in re.findall(r"`([\w.]+):([\w.-]+):([\d.]+)`", row[1]):
        files.append(JARS.joinpath(*group.split("."), name, release, f"{name}-{release}.jar"))
    if not all(file.is_file() for file in files):
        pytest.skip("needs jars that make spark-versions fetches")
    return [str(file) for file in files]


def run(script: str, conf: dict[str, str], environment: dict[str, str]) -> Any:
    """What the script prints last, as JSON."""
    ran = subprocess.run(
        [sys.executable, "-c", SESSION + script, json.dumps(conf)],
        capture_output=True,
        text=True,
        timeout=500,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable} | environment,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    return json.loads(ran.stdout.splitlines()[-1])


def login(workspace: Workspace) -> dict[str, str]:
    store = workspace.settings.store
    return {"AWS_ACCESS_KEY_ID": store.access_key_id or "", "AWS_SECRET_ACCESS_KEY": store.secret_access_key or ""}


@pytest.mark.timeout(600)
def test_a_table_of_iceberg(nats3: Command, workspace: Workspace, bucket: str, postgres_url: str) -> None:
    given = jars(ICEBERG)
    archive = logs(workspace, bucket, "orders")
    put(workspace, archive, rows(1, 10))
    put(workspace, archive, rows(11, 20, LATER), hour=LATER)
    nats3.ok("table", "create", "orders")
    (block,) = re.findall(r"```\n(spark\.sql\.catalog.*?)```", ICEBERG, re.DOTALL)
    conf = dict(line.split("=", 1) for line in block.splitlines() if not line.startswith("#"))
    address = conninfo_to_dict(postgres_url)
    at = "spark.sql.catalog.nats3"
    here = {
        f"{at}.uri": conf[f"{at}.uri"].replace("host/db", f"{address['host']}:{address['port']}/{address['dbname']}"),
        f"{at}.jdbc.user": str(address["user"]),
        f"{at}.jdbc.password": str(address.get("password") or ""),
        f"{at}.warehouse": f"s3://{bucket}/iceberg",
        f"{at}.s3.endpoint": str(workspace.settings.store.endpoint),
    }
    assert here.keys() - conf.keys() == {f"{at}.jdbc.password"}
    (sql,) = (block for block in re.findall(r"```sql\n(.*?)```", ICEBERG, re.DOTALL) if block.startswith("SELECT"))
    (procedure,) = re.findall(r"`(CALL nats3\.system\..*?)`", ICEBERG)
    by_subject, as_it_was = sql.strip().rstrip(";").split(";\n")
    script = f"""
(when,) = spark.sql("SELECT date_format(now(), 'yyyy-MM-dd HH:mm:ss.SSS')").first()
counts = sorted((row[0], row[1]) for row in spark.sql({by_subject!r}).collect())
(before,) = spark.sql({as_it_was!r}.replace("2026-11-21 12:00:00", when)).first()
seqs = sorted(row.seq for row in spark.table("nats3.nats3.orders").where("hour = {LATER!r}").collect())
(ancestors,) = spark.sql(f"{procedure}").count(),
print(json.dumps([counts, before, seqs, ancestors]))
"""
    answer = run(script, conf | here | {"spark.jars": ",".join(given)}, login(workspace))
    counts, before, seqs, ancestors = answer
    assert sum(count for _, count in counts) == before == 20
    assert seqs == numbers((11, 20))
    assert ancestors >= 1


@pytest.mark.timeout(600)
def test_chunks_by_s3a(nats3: Command, workspace: Workspace, bucket: str, tmp_path: Path) -> None:
    given = jars(QUERY)
    archive = made(workspace, bucket, "logs", last=150)
    store(workspace, archive, 10, [message(seq) for seq in range(1, 101)])
    store(workspace, archive, 11, [message(seq) for seq in range(101, 151)])
    live = tmp_path / "live.json"
    live.write_text(nats3.ok("chunk", "list", "logs", "-o", "json").out)
    (block,) = re.findall(r"```\n(spark\.driver.*?)```", QUERY, re.DOTALL)
    conf = dict(line.split("=", 1) for line in block.splitlines() if not line.startswith("#"))
    path = ":".join(given)
    here = {
        "spark.driver.extraClassPath": path,
        "spark.executor.extraClassPath": path,
        "spark.hadoop.fs.s3a.endpoint": str(workspace.settings.store.endpoint),
    }
    assert here.keys() <= conf.keys()
    examples = re.findall(r"```python\n(.*?)```", QUERY, re.DOTALL)
    (example,) = (text for text in examples if "import SparkSession" in text)
    for old, new in (('"cold/"', f'"s3a://{bucket}/"'), ('"cold"', f'"s3a://{bucket}/"'), ("live.json", str(live))):
        assert old in example
        example = example.replace(old, new)
    answer = run(f"{example}\nprint(json.dumps(errors))\n", conf | here, login(workspace))
    assert [tuple(row) for row in answer] == ERRORS
