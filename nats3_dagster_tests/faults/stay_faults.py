"""Faults: runs that stay for the next captures, killed, twice, and beside a capture by hand."""

import time

from nats3_dagster_tests.faults import jobs, stay_jobs
from nats3_dagster_tests.faults.kill_faults import CAPTURE
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial


def _publish_for_a_while(trial: Trial) -> None:
    """Messages for several captures: they come over a few seconds."""
    for _ in range(5):
        trial.publish(trial.random.randint(1, 150))
        time.sleep(trial.random.uniform(0.2, 0.9))


@fault("kill stay", "kill -9 at a step of one of the captures of a run that stays", short=True)
def kill_stay(trial: Trial) -> None:
    trial.make_stream(200)
    # A pass is counted in each process: those of the driver go through all captures of the run.
    point, passes = trial.random.choice(CAPTURE), trial.random.randint(1, 3)
    run = trial.start(stay_jobs.stay, ARCHIVE, fault=f"capture.{point}:kill:{passes}")
    _publish_for_a_while(trial)
    trial.end(run, f"stay [capture.{point}:kill:{passes}]")
    if trial.random.random() < 0.5:
        trial.publish(100)
    trial.finish_capture()


@fault("two stay", "two runs that stay capture one archive, beside a capture by hand")
def two_stay(trial: Trial) -> None:
    trial.make_stream(200)
    runs = [trial.start(stay_jobs.stay, ARCHIVE) for _ in range(2)]
    _publish_for_a_while(trial)
    trial.run(jobs.capture, ARCHIVE)
    for run in runs:
        trial.end(run, "stay")
    trial.finish_capture()


@fault("stay while nats restarts", "the NATS server goes and comes back under a run that stays")
def stay_while_nats_restarts(trial: Trial) -> None:
    trial.make_stream(200)
    run = trial.start(stay_jobs.stay, ARCHIVE)
    _publish_for_a_while(trial)
    trial.servers.nats.kill()
    time.sleep(trial.random.uniform(0.0, 3.0))
    trial.servers.nats.start()
    _publish_for_a_while(trial)
    trial.end(run, "stay")
    trial.finish_capture()
