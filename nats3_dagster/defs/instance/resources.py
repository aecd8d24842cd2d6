"""Resources: settings, the store and Spark, made when a run starts.

Invariant: a definition holds no address and no secret, so none can show in the UI, in run config or in logs.
"""

import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dagster import InitResourceContext, resource
from pydantic import SecretStr

from nats3_dagster.errors import OperatorError
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace

if TYPE_CHECKING:
    from dagster_aws.s3 import S3Resource
    from dagster_pyspark import LazyPySparkResource

log = logging.getLogger(__name__)
# In the log of each run, with the seconds that it took; `run_times` measures by it.
SPARK_READY = "Spark is ready after"


@resource(description="Where NATS, Postgres and the store are: NATS3_* and AWS_* in the environment, or nats3.toml.")
def settings_resource(context: InitResourceContext) -> Settings:
    return Settings.load()


@resource(
    description="dagster-aws's S3Resource: endpoint, region and credentials of the store, from the variables that the "
    "AWS SDKs read. Executors get the same."
)
def s3_resource(context: InitResourceContext) -> "S3Resource":
    from nats3_dagster.defs.instance.store_resource import StoreResource

    store = Settings.load().store
    return StoreResource(
        endpoint_url=store.endpoint,
        region_name=store.region,
        aws_access_key_id=store.access_key_id,
        aws_secret_access_key=store.secret_access_key,
        aws_session_token=store.session_token,
        profile_name=store.profile,
    )


@resource(
    description="dagster-pyspark's LazyPySparkResource: a session by spark/spark-defaults.conf, one JVM a run; or that "
    "of the Spark Connect server which NATS3_SPARK_REMOTE names."
)
def spark_resource(context: InitResourceContext) -> "Iterator[LazyPySparkResource]":
    from dagster_pyspark import LazyPySparkResource

    from nats3_dagster.pipeline.session import release_executors

    settings = Settings.load()
    master = {"spark.master": settings.spark_master} if settings.spark_master else {}
    try:
        yield LazyPySparkResource(spark_config={"spark.remote": settings.connect} if settings.connect else master)
    finally:
        release_executors()


def start_spark(spark: "LazyPySparkResource", settings: Settings, *, needs_nats: bool = True) -> Any:
    """The run's session. Raises SourceError if it `needs_nats` and NATS does not answer, which is tried first because a
    JVM takes 5 s to start; EngineError without Java, if Spark does not start, or if no server of Spark Connect
    answers."""
    from dagster_spark.utils import flatten_dict

    from nats3_dagster.pipeline.connect import connect
    from nats3_dagster.pipeline.session import not_started, prepare_jvm

    if needs_nats:
        with Workspace(settings) as workspace:
            _ = workspace.link  # connects

    began = time.monotonic()
    if settings.connect:
        # The resource finds the session that is open.
        connect(settings.connect)
    else:
        # The resource makes its session in this JVM.
        prepare_jvm(settings.spark_master, dict(flatten_dict(spark.spark_config)))
    try:
        session = spark.spark_session
        log.info("%s %.2f s", SPARK_READY, time.monotonic() - began)
        return session
    except Exception as error:  # JVM, py4j and PySpark have an error tree each
        raise not_started(error) from error


def with_store(settings: Settings, s3: "S3Resource") -> Settings:
    """The settings with the store of the resource. Raises OperatorError for options that executors cannot use."""
    if s3.use_unsigned_session or s3.verify is False:
        raise OperatorError(
            "The resource nats3_s3 has a use_unsigned_session or verify that executors cannot take over",
            "Give it endpoint_url, region_name and keys or a profile_name, or nothing to use what the AWS SDK finds",
        )
    changes: dict[str, Any] = {
        "s3_endpoint": s3.endpoint_url,
        "s3_region": s3.region_name or settings.s3_region,
        "s3_access_key_id": s3.aws_access_key_id,
        "s3_secret_access_key": _secret(s3.aws_secret_access_key),
        "s3_session_token": _secret(s3.aws_session_token),
        "s3_profile": s3.profile_name,
    }
    return settings.model_copy(update=changes)


def _secret(text: str | None) -> SecretStr | None:
    return None if text is None else SecretStr(text)


# Their keys do not clash with an `s3` or `spark` of the project that the archives are in.
RESOURCES = {"nats3_settings": settings_resource, "nats3_s3": s3_resource, "nats3_spark": spark_resource}
