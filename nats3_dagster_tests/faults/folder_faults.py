"""Faults: two catalogs want one folder, in a store that ignores conditions, or while one of them removes objects."""

import json
from contextlib import ExitStack

from nats3_dagster.archive.stored.removal import BATCH
from nats3_dagster_tests.faults import change_jobs, jobs, restored_jobs
from nats3_dagster_tests.faults.change_faults import in_catalog, rows, spec_of
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.topology import BUCKET
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.support.servers.s3_proxy import Handler

_JOB = "select job_id::text from nats3.archive where name = %s and deleted_at is null"
_OTHER, _FOREIGN = "another owner", "another catalog"


@fault(
    "folder claimed without conditions",
    "two catalogs claim a folder at once, in a store that ignores the condition of a create-only PUT",
    store="s3",
)
def claimed_without_conditions(trial: Trial) -> None:
    """One of them owns it in the end, and the other one writes nothing, whether its creation was refused or not."""
    rng, owner = trial.random, f"{trial.stream}/archive={ARCHIVE}/_owner.json"
    trial.through_proxy("s3")
    trial.make_stream_alone(rng.randint(50, 200))

    def ignore(handler: Handler) -> None:
        if handler.path.partition("?")[0].endswith("/_owner.json"):
            trial.servers.s3_client.delete_object(Bucket=BUCKET, Key=owner)
        handler.reply(*handler.forward())

    with trial.servers.database() as second:
        trial.servers.s3_proxy.break_at(ignore, ("PUT",))
        step = rng.choice(("owner.absent", "owner.written", "both"))
        if step == "both":
            # The second one looked before the first one's PUT, and puts after it.
            with ExitStack() as late:
                with in_catalog(trial, second):
                    late_job = late.enter_context(trial.held("owner.absent", jobs.create, spec_of(trial)))
                with trial.held("owner.written", jobs.create, spec_of(trial)) as job:
                    late.close()
                    other = trial.end(late_job, "the later creation")
            ended = trial.end(job, "creation held after its PUT")
            trial.expect(ended.ok != other.ok, "silent", f"two creations in one folder: {ended}; {other}")
        else:
            with trial.held(step, jobs.create, spec_of(trial)) as job, in_catalog(trial, second):
                other = trial.run(jobs.create, spec_of(trial))
            ended = trial.end(job, f"creation held at {step}")
            trial.expect(ended.ok or other.ok, "stuck", f"no archive was made: {ended}; {other}")
        trial.servers.repair()
        owns = json.loads(trial.fetch(BUCKET, owner))["id"]
        winner = ""
        for database in (trial.database, second):
            with in_catalog(trial, database):
                job_ids = [job_id for (job_id,) in rows(trial, _JOB, ARCHIVE)]
                if job_ids == [owns]:
                    winner = database
                elif job_ids:
                    before = trial.keys(BUCKET, f"{trial.stream}/")
                    refused = trial.capture()
                    trial.expect(_OTHER in refused.text, "silent", f"a capture into a foreign folder: {refused}")
                    after = trial.keys(BUCKET, f"{trial.stream}/")
                    trial.expect(after == before, "silent", f"{len(after ^ before)} objects in a foreign folder")
        assert winner, f"no archive has the id {owns}"
        with in_catalog(trial, winner):
            trial.finish_capture()


@fault(
    "folder taken over during a removal",
    "another catalog takes the folder over while a purge or a sweep of the first is held",
)
def taken_over_during_removal(trial: Trial) -> None:
    """What was not deleted by then stays. Held within a batch, that batch goes: it is named, and read again."""
    rng = trial.random
    trial.environment["NATS3_DELETE_GRACE"] = "0"
    trial.make_stream(rng.randint(50, 100))
    for _ in range(rng.randint(2, 5)):
        trial.finish_capture()
        trial.publish(rng.randint(10, 60))
    trial.finish_capture()
    chunks = len(trial.live_objects())
    if is_sweep := rng.random() < 0.5:
        trial.must(change_jobs.retire, ARCHIVE, sorted(rng.sample(range(chunks), rng.randint(1, chunks))), False)
    step = rng.choice(("claimed", "claimed", "deleted"))
    with trial.servers.database() as second, ExitStack() as later:
        work, arguments = (change_jobs.sweep, ()) if is_sweep else (jobs.delete, (ARCHIVE,))
        with trial.held(f"delete.{step}", work, *arguments) as removal, in_catalog(trial, second):
            trial.must(change_jobs.take_over, spec_of(trial))
            trial.finish(jobs.capture, ARCHIVE)
        ended = trial.end(removal, f"removal held at delete.{step}")
        later.enter_context(in_catalog(trial, second))
        missing = {key for bucket, key in trial.live_objects() if not trial.exists(bucket, key)}
        if step == "claimed":
            trial.expect(_FOREIGN in ended.text, "silent", f"a removal after a take-over: {ended}")
            trial.expect(not missing, "lost", f"{len(missing)} objects of the second catalog are gone")
        trial.expect(len(missing) <= BATCH, "lost", f"{len(missing)} objects are gone: more than a batch")
        named = trial.must(jobs.verify_all, ARCHIVE)
        trial.expect(set(named) == missing, "silent", f"verify names {named} and not {sorted(missing)}")
        trial.must(restored_jobs.repair, ARCHIVE, False)
        trial.expect(trial.must(jobs.verify_all, ARCHIVE) == [], "lost", "objects are not repaired")
        trial.publish(rng.randint(1, 50))
        trial.finish_capture()
