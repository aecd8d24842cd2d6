"""Thorough tests: those that `.ci/run` leaves out, and `make test` and `make thorough` run.

Of 6,558 tests these 372 took 55 % of the time (docs/decisions.md, 168): each starts a JVM, a daemon, a browser, a
cluster or many processes. Most have a test beside them, in CI, that holds the same rule in one process; clusters and
servers that are killed have none.
"""

from collections.abc import Iterable

# Files, and single tests, of the root of the tests.
_THOROUGH = frozenset(
    {
        "acceptance/test_cli_dev",
        "acceptance/test_cli_load",
        "acceptance/test_migrate",
        "acceptance/test_readme::test_another_demo_touches_nothing_of_what_was_made_before",
        "acceptance/test_secrets",
        "acceptance/test_secrets_planted",
        "acceptance/test_spark_cluster",
        "acceptance/test_spark_docs",
        "acceptance/test_spark_sink",
        "acceptance/test_upgrade",
        "browser/test_dagster_ui",
        "deploy/test_compose_processes",
        "deploy/test_wheel",
        "faults/test_interrupted_spark",
        "faults/test_killed_replay",
        "http/test_fuzz",
        "http/test_load_runs",
        "integration/test_account_restore_cluster",
        "integration/test_dev_dagster",
        "integration/test_dev_stack",
        "integration/test_disaster",
        "integration/test_erasure_final",
        "integration/test_jetstream_cluster",
        "integration/test_old_servers",
        "integration/test_postgres_killed",
        "integration/test_reads_by_subject",
        "integration/test_spark_archive",
        "integration/test_spark_jetstream",
        "integration/test_table_hooks",
        "integration/test_tables",
        "integration/test_taking_cluster",
        "integration/test_worker_memory::test_workers_of_a_capture_and_of_a_replay_stay_within_their_memory",
        "orchestration/test_connect",
        "orchestration/test_dead_runs",
        "orchestration/test_platform",
        "orchestration/test_scale",
        "orchestration/test_shell",
        "orchestration/test_two_servers",
        "orchestration/test_versions",
    }
)
# Of the faults of the short selection those that CI plays: one of each promise.
FAULTS_IN_CI = frozenset(
    {
        "kill capture.before_put",
        "kill capture.in_commit",
        "kill replay.sent",
        "kill replay.before_record",
        "kill erase.swapped",
        "kill compact.swapped",
        "kill export.moved",
        "taking killed",
        "stream restored",
        "s3 503",
        "chunks flipped",
        "worker outlives driver",
    }
)


def is_thorough(name: str) -> bool:
    """True for a test that CI leaves out. `name`: of the test, from the root of the tests, as `http/test_fuzz::test_a`;
    with its parameters or without."""
    file, _, test = name.partition("::")
    return file in _THOROUGH or f"{file}::{test.partition('[')[0]}" in _THOROUGH


def files() -> Iterable[str]:
    """The files that are named, from the root of the tests."""
    return sorted({name.partition("::")[0] for name in _THOROUGH})
