"""The store as dagster-aws' resource. It has a module of its own, because its import takes 0.25 s, and only runs need
it."""

from typing import Any

from dagster_aws.s3 import S3Resource


class StoreResource(S3Resource):
    """An S3Resource that makes no client until it is asked for one: executors have clients of their own, and one that
    is made for each step takes 0.1 s of processor time."""

    def get_object_to_set_on_execution_context(self) -> Any:
        return self
