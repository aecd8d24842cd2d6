"""The verdict of a soak: every judge, on everything that the soak left."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import boto3
import psycopg
from botocore.config import Config
from botocore.exceptions import ClientError

from nats3_dagster.dev.stack import Endpoints
from nats3_dagster_tests.soak.judge import Archived, Limits, judge_archive, read_archive, read_catalog
from nats3_dagster_tests.soak.judge_outputs import (
    judge_copy,
    judge_export,
    judge_iceberg,
    judge_target,
    read_target,
)
from nats3_dagster_tests.soak.setup import ARCHIVES, BUCKET, COPY, TARGET, stream_state
from nats3_dagster_tests.soak.streams import Stream
from nats3_dagster_tests.soak.truth import read_truth

# The sequences that retention has taken out of an archive, and whether the hour of any of them had not ended long
# enough ago is seen by its chunks: none of its hour is left. The newest hour that expired.
_EXPIRED = """
select coalesce(max(upper(g.seqs)), 0) from nats3.gap g join nats3.archive a on a.id = g.archive_id
where a.name = %s and g.reason = 'expired_by_policy'
  and nats3.hour_start(nats3.hour_at(upper(g.hours) - 1)) + make_interval(secs => 3600 + a.keep_s) <= now()
"""


# What was done: the rows that each part leaves in the catalog, and the runs of Dagster by their end.
_DONE = """
select 'archives ' || what, count(*) from nats3.event where what in ('compacted', 'expired', 'swept') group by 1
union all select 'captures', count(*) from nats3.capture
union all select 'seals', count(*) from nats3.seal
union all select 'exported hours', count(*) from nats3.export_hour
union all select 'attempts of the replay', count(*) from nats3.replay_attempt
union all select 'sequences in gaps, ' || reason, sum(upper(seqs) - lower(seqs)) from nats3.gap group by 1
union all select 'runs, ' || lower(status), count(*) from public.runs group by 1
order by 1
"""


def work_done(endpoints: Endpoints) -> dict[str, str]:
    """How much of each kind of work the soak had: a promise about work that was not done is none."""
    with psycopg.connect(endpoints.postgres_url) as connection:
        return {name: f"{count:,}" for name, count in connection.execute(_DONE)}


def judge_all(endpoints: Endpoints, truth: Path, streams: Iterable[Stream]) -> list[str]:
    """A line for each broken promise."""
    nats = endpoints.nats_url
    by_name = {stream.name: stream for stream in streams}
    client = _s3(endpoints)
    fetch, keys = _fetch(client), _keys(client)
    broken: list[str] = []
    with psycopg.connect(endpoints.postgres_url, autocommit=True) as connection:
        for name, stream in ARCHIVES.items():
            archived = read_archive(name, *read_catalog(connection, name), fetch)
            row = connection.execute(_EXPIRED, (name,)).fetchone()
            state = stream_state(nats, stream)
            limits = Limits(state["first_seq"], by_name[stream].per_subject, int(row[0]) if row else 0)
            broken += judge_archive(name, archived, read_truth(truth, stream), limits)
            print(f"  {name}: {archived.seqs.size:,} messages in {len(archived.chunks):,} chunks", flush=True)
            if name == "events":
                broken += _judge_events(connection, archived, fetch, keys, _iceberg(endpoints))
            if name == "small":
                messages = stream_state(nats, TARGET)["messages"]
                source = _source(by_name[stream].token)
                broken += judge_target(read_target(nats, TARGET, messages, source), archived)
                print(f"  target: {messages:,} messages", flush=True)
    return broken


def _judge_events(
    connection: "psycopg.Connection[Any]",
    archived: Archived,
    fetch: Callable[[str, str], bytes],
    keys: Callable[[str], Iterable[str]],
    store: dict[str, str],
) -> list[str]:
    files = [key for key in keys(COPY) if key.startswith("files/") and key.endswith(".parquet")]
    print(f"  export: {len(files):,} files", flush=True)
    return [
        *judge_export(connection, "events", archived, (fetch(COPY, key) for key in files)),
        *judge_iceberg(connection, "events", f"s3://{BUCKET}", store),
        *judge_copy(archived, COPY, fetch, keys),
    ]


def _iceberg(at: Endpoints) -> dict[str, str]:
    return {
        "s3.endpoint": at.s3_endpoint,
        "s3.region": at.s3_region,
        "s3.access-key-id": at.s3_access_key_id,
        "s3.secret-access-key": at.s3_secret_access_key,
    }


def _source(token: str) -> Callable[[bytes], bytes]:
    return lambda subject: b"%b.%b" % (token.encode(), subject.partition(b".")[2])


def _s3(at: Endpoints) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=at.s3_endpoint,
        region_name=at.s3_region,
        aws_access_key_id=at.s3_access_key_id,
        aws_secret_access_key=at.s3_secret_access_key,
        config=Config(s3={"addressing_style": "path"}),
    )


def _fetch(client: Any) -> Callable[[str, str], bytes]:
    def fetch(bucket: str, key: str) -> bytes:
        try:
            return client.get_object(Bucket=bucket, Key=key)["Body"].read()
        except ClientError as error:
            raise LookupError(key) from error

    return fetch


def _keys(client: Any) -> Callable[[str], Iterable[str]]:
    def keys(bucket: str) -> Iterable[str]:
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            yield from (entry["Key"] for entry in page.get("Contents", ()))

    return keys
