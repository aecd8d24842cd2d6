"""Faults: what a tick of Dagster's sensor reads changes between its reads; clocks of hosts; manifests that are gone;
runs that die with their code server."""

import time
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import LiteralString

from nats3_dagster_tests.faults import dagster_jobs, jobs
from nats3_dagster_tests.faults.judge import Finding
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.server_faults import meanwhile
from nats3_dagster_tests.faults.stream_faults import restore
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial

# Steps of a capture's driver.
_CAPTURE = ("planned", "before_commit")
_END = "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s"
READS = ("former_read", "versions_read", "events_read", "partitions_read", "seals_read", "revisions_read")
_CHUNK_HOURS = """
select distinct c.hour from nats3.chunk c join nats3.archive a on a.id = c.archive_id
where a.name = %s and a.deleted_at is null and c.deleted_at is null"""
_SEALED_HOURS = """
select distinct s.hour from nats3.seal s join nats3.archive a on a.id = s.archive_id
where a.name = %s and a.deleted_at is null"""
_NEWEST = """
select distinct on (s.hour) s.hour, s.key from nats3.seal s join nats3.archive a on a.id = s.archive_id
where a.name = %s and a.deleted_at is null order by s.hour, s.number desc"""

# Of an hour with seals above this number.
_UNSEAL = """
select nats3.unseal(a.id, int4multirange(nats3.hour_range(s.hour, s.hour))) from nats3.seal s
join nats3.archive a on a.id = s.archive_id
where s.hour = %s and a.name = %s and a.deleted_at is null and s.number > %s limit 1"""
_FORGET = "delete from nats3.seal where hour = %s and number > %s"


def hour_at(time_ns: int) -> str:
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%d-%H:00")


def values(trial: Trial, query: LiteralString) -> set[str]:
    with trial.servers.admin(database=trial.database) as connection:
        return {row[0] for row in connection.execute(query, (ARCHIVE,))}


def past_hours(trial: Trial) -> list[str]:
    """An archive of some past hours, captured and sealed."""
    offsets = [-float(n) for n in range(trial.random.randint(4, 7), 1, -1)]
    restore(trial, offsets)
    trial.finish_capture()
    trial.finish(jobs.seal_all, ARCHIVE)
    return sorted(values(trial, _CHUNK_HOURS))


@fault("tick between reads", "hours are sealed or retired between two reads of a sensor's tick", since=(2, 15))
def tick_between_reads(trial: Trial) -> None:
    hours = past_hours(trial)
    home = trial.servers.folder / f"dagster-{trial.seed}"
    home.mkdir()
    trial.must(dagster_jobs.tick_until_idle, str(home))
    changed = {trial.random.choice(hours)}
    trial.must(dagster_jobs.retire, ARCHIVE, min(changed))
    is_sealed_before = trial.random.random() < 0.3
    if is_sealed_before:
        trial.finish(jobs.seal_all, ARCHIVE)
    with trial.held(f"tick.{trial.random.choice(READS)}", dagster_jobs.tick, str(home)) as job:
        assert trial.is_held, "the tick did not get to its fault point"
        if trial.random.random() < 0.5:
            another = trial.random.choice(hours)
            changed.add(another)
            trial.must(dagster_jobs.retire, ARCHIVE, another)
        trial.finish(jobs.seal_all, ARCHIVE)
    ended = trial.end(job, "tick")
    trial.expect(ended.ok, "stuck", f"the tick failed: {ended}")
    if ended.ok:
        wiped, reported = ended.value
        again = {hour for asset, hour in reported if asset == "sealed"} - changed
        trial.expect("sealed" not in wiped, "lost", f"the tick wiped {wiped}")
        trial.expect(not again, "doubled", f"hours that stayed sealed were reported again: {again}")
    trial.must(dagster_jobs.tick_until_idle, str(home))
    chunks, sealed = trial.must(dagster_jobs.shown, str(home), ARCHIVE)
    trial.expect(sealed == values(trial, _SEALED_HOURS), "lost", f"Dagster shows {sealed} as sealed")
    in_catalog = values(trial, _CHUNK_HOURS)
    trial.expect(in_catalog <= chunks, "lost", f"Dagster lacks {in_catalog - chunks}")
    rest = chunks - in_catalog - values(trial, _SEALED_HOURS) - {hour_at(time.time_ns())}
    trial.expect(not rest, "doubled", f"Dagster shows {rest}, and the catalog has nothing of them")


@fault("run of a dead code server", "a run is killed with all that could tell, or it loses Postgres and lives")
def run_of_a_dead_code_server(trial: Trial) -> None:
    """A dead run is found, and a living one is not taken for dead."""
    trial.make_stream(trial.random.randint(300, 700))
    home = trial.servers.folder / f"dagster-{trial.seed}"
    home.mkdir()
    dagster_jobs.dagster_home(str(home))
    harm, point = trial.random.choice(("kill", "kill", "reset", "restart")), trial.random.choice(_CAPTURE)
    with trial.held(f"capture.{point}", dagster_jobs.run_capture, str(home), ARCHIVE) as process:
        assert trial.is_held, f"the run did not get to {point}"
        if harm == "kill":
            process.kill()
        elif harm == "restart":
            trial.servers.postgres.kill()
            trial.servers.postgres.start()
        ends = nullcontext() if harm != "reset" else meanwhile(lambda: end_connections(trial), 1.0)
        with ends:
            states = trial.must(dagster_jobs.monitor, str(home), 3 * dagster_jobs.FREE_S)
        trial.log.append(f"{harm} at {point}: {states}")
    if harm == "kill":
        trial.expect(states == ["FAILURE"], "stuck", f"a dead run counts as {states}")
    else:
        trial.expect(states == ["STARTED"], "lost", f"a living run counts as {states}")
        trial.end(process, f"the run after {harm}")
    trial.finish_capture()


def end_connections(trial: Trial) -> None:
    """End all connections to the trial's database."""
    with trial.servers.admin() as connection:
        connection.execute(_END, (trial.database,))


@fault("host's clock is off", "the clocks of hosts that capture and seal are hours fast or slow")
def hosts_clock_is_off(trial: Trial) -> None:
    trial.make_stream(trial.random.randint(200, 500))
    running = hour_at(time.time_ns())
    for _ in range(trial.random.randint(2, 4)):
        trial.set_clock(trial.random.choice(("2", "-2", "1", "30", "-30", "0.6", "2,-2")), 1)
        trial.capture(fault=trial.random.choice(("", "", "capture.object_put:kill")))
        trial.run(jobs.seal_all, ARCHIVE)
        ended = trial.run(jobs.seal_hour, ARCHIVE, running)
        trial.expect("has not ended" in ended.text, "unclear", f"the running hour was asked for: {ended}")
        trial.publish(trial.random.randint(10, 100))
    early = {hour for hour in values(trial, _SEALED_HOURS) if hour >= running}
    if hour_at(time.time_ns()) == running:  # else the hour ended during the trial
        trial.expect(not early, "lost", f"hours were sealed before they had ended: {early}")
    trial.set_clock()
    trial.finish_capture()
    trial.judge_archive()


@fault(
    "manifests gone",
    "manifests are removed or damaged, or the catalog is older than the bucket",
    store="file",
    since=(2, 15),
)
def manifests_gone(trial: Trial) -> None:
    hours = past_hours(trial)
    for hour in trial.random.sample(hours, trial.random.randint(0, 2)):
        trial.must(dagster_jobs.retire, ARCHIVE, hour)
    trial.finish(jobs.seal_all, ARCHIVE)  # numbers above 1
    with trial.servers.admin(database=trial.database) as connection:
        connection.execute("set session_replication_role = replica")
        for hour, key in connection.execute(_NEWEST, (ARCHIVE,)).fetchall():
            harm = trial.random.choice(("none", "gone", "damaged", "stray", "forgotten", "changed"))
            if harm == "gone":
                trial.overwrite(BUCKET, key, None)
            elif harm == "damaged":
                trial.overwrite(BUCKET, key, b"{}")
            elif harm == "stray":
                number = int(key.partition("manifest-")[2][:4]) + trial.random.randint(0, 3)
                folder, _, name = key.rpartition("/manifest-")
                stray = f"{folder}/manifest-{number:04d}-{'0' * 12}{name[17:]}"
                trial.overwrite(BUCKET, stray, b"{}")
            elif harm in ("forgotten", "changed"):
                # As a catalog of before the seal: what it sums up does not have the hour as sealed either.
                connection.execute(_UNSEAL, (hour, ARCHIVE, 1 if harm == "changed" else 0))
                connection.execute(_FORGET, (hour, 1 if harm == "changed" else 0))
    point = trial.random.choice(("planned", "object_put", "added"))
    trial.run(dagster_jobs.repair_proofs, ARCHIVE, fault=trial.random.choice(("", f"seal.{point}:kill")))
    trial.finish(jobs.seal_all, ARCHIVE)
    trial.finish(dagster_jobs.repair_proofs, ARCHIVE)
    trial.judge_seals()
    with trial.servers.admin(database=trial.database) as connection:
        newest: dict[str, str] = dict(connection.execute(_NEWEST, (ARCHIVE,)).fetchall())
    for hour, key in newest.items():
        folder = trial.folder / BUCKET / key.rpartition("/")[0]
        manifests = sorted(path.name for path in folder.glob("manifest-*"))
        highest = [name for name in manifests if name[:13] == manifests[-1][:13]] if manifests else []
        if highest != [key.rpartition("/")[2]]:
            trial.findings.append(Finding("lost", 1, f"{hour}: the highest of {manifests} is not the catalog's {key}"))
