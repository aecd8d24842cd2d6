"""The executor of our runs: all steps in one process, which shows as long as it lives that it does."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dagster import DagsterInstance, Executor, InitExecutorContext, executor, in_process_executor

from nats3_dagster.defs.keys import HELD_TAG
from nats3_dagster.defs.run_launcher import WatchingRunLauncher, held_in
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


class _ShownExecutor(Executor):
    """Another executor, whose run is shown to live."""

    def __init__(self, inner: Executor) -> None:
        self._inner = inner

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[Any]:
        with _shown(plan_context.instance, plan_context.run_id):
            yield from self._inner.execute(plan_context, execution_plan)

    @property
    def retries(self) -> Any:
        return self._inner.retries

    @property
    def step_dependency_config(self) -> Any:
        return self._inner.step_dependency_config


@contextmanager
def _shown(instance: DagsterInstance, run_id: str) -> Iterator[None]:
    """Holds the lock of the run where the instance's launcher asks for it. Its tag says that the lock was taken, and in
    which database: a run without it is never taken for dead."""
    if not isinstance(instance.run_launcher, WatchingRunLauncher):
        yield
        return
    with Workspace(Settings.load()) as workspace:
        locks = workspace.catalog.run_locks
        with locks.holding(run_id):
            instance.add_run_tags(run_id, {HELD_TAG: held_in(run_id, locks.database())})
            workspace.catalog.rest()
            yield


# The name and the config are those of Dagster's own: run configs fit both.
@executor(name=in_process_executor.name, config_schema=in_process_executor.config_schema)  # type: ignore[arg-type]
def run_executor(context: InitExecutorContext) -> Executor:
    """All steps in one process."""
    make = in_process_executor.executor_creation_fn
    assert make is not None
    return _ShownExecutor(make(context))
