"""Faults: Postgres killed, restarted, unreachable or refusing, while a capture or a replay works."""

import threading
import time
from contextlib import suppress

import psycopg

from nats3_dagster_tests.faults import jobs
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.server_faults import capture_or_replay, disturb
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial


@fault("postgres killed", "kill -9 of Postgres and a restart, in the middle", short=True)
def postgres_killed(trial: Trial) -> None:
    def trouble(trial: Trial) -> None:
        trial.servers.postgres.kill()
        trial.servers.postgres.start()

    capture_or_replay(trial, trouble)


@fault("postgres reset", "all connections to Postgres are reset, again and again")
def postgres_reset(trial: Trial) -> None:
    trial.through_proxy("postgres")
    disturb(trial, trial.servers.postgres_proxy.reset, 0.2)


@fault("answer to commit lost", "Postgres commits, and its answer never arrives", short=True)
def commit_answer_lost(trial: Trial) -> None:
    trial.make_stream(400)
    trial.through_proxy("postgres")

    def trouble(trial: Trial) -> None:
        trial.servers.postgres_proxy.freeze()
        threading.Timer(0.3, trial.servers.postgres_proxy.reset).start()

    with trial.held("capture.in_commit", jobs.capture, ARCHIVE) as job:
        trouble(trial)
    time.sleep(0.5)
    trial.servers.repair()
    trial.end(job, "capture whose commit was lost")
    trial.finish_capture()


@fault("serialization failures", "Postgres refuses the first three commits with 40001", short=True)
def serialization_failures(trial: Trial) -> None:
    trial.make_stream(400)
    with trial.servers.admin(database=trial.database) as connection:
        # A sequence is not rolled back, so it counts the refusals.
        connection.execute("create sequence refusals")
        connection.execute(
            "create function refuse_some() returns trigger language plpgsql as $$ begin "
            "if nextval('refusals') <= 3 then raise exception 'injected' using errcode = '40001'; end if; "
            "return new; end $$"
        )
        for table in ("nats3.chunk", "nats3.replay_attempt"):
            connection.execute(f"create trigger a before insert on {table} for each row execute function refuse_some()")
    trial.capture()
    trial.finish_capture()
    with trial.servers.admin(database=trial.database) as connection:
        connection.execute("alter sequence refusals restart")
    trial.make_target()
    trial.finish_replay(trial.begin_replay())


@fault("postgres full of connections", "Postgres takes no connection more")
def connection_limit(trial: Trial) -> None:
    trial.make_stream(300)
    taken = list[psycopg.Connection[object]]()
    try:
        with suppress(psycopg.OperationalError):
            while len(taken) < 200:
                taken.append(trial.servers.admin())
        trial.expect(not trial.capture().ok, "silent", "a capture without Postgres is called a success")
    finally:
        for connection in taken:
            connection.close()
    trial.finish_capture()
