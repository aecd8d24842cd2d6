"""Postgres and S3 of a benchmark, in a temporary folder, with a migrated catalog and the bucket `bench`."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nats3_dagster.catalog import migrate
from nats3_dagster.dev.postgres import Postgres
from nats3_dagster.dev.s3server import S3Server
from nats3_dagster.objects import create_bucket
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

BUCKET = "bench"


@contextmanager
def workspace() -> Iterator[Workspace]:
    """A workspace on servers of its own, which end with it. The settings of this process name them."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nats3-bench-")))
        postgres = stack.enter_context(Postgres(folder / "postgres"))
        s3 = stack.enter_context(S3Server(folder / "s3"))
        os.environ.update({
            "NATS3_POSTGRES_URL": postgres.url(), "AWS_ENDPOINT_URL_S3": s3.endpoint, "AWS_REGION": s3.region,
            "AWS_ACCESS_KEY_ID": s3.access_key, "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        })  # fmt: skip
        settings = Settings.load()
        migrate(settings.postgres)
        create_bucket(settings.store, BUCKET)
        yield stack.enter_context(Workspace(settings))
