"""Faults of durables whose flow control acknowledges: a client that dies, freezes or is doubled, a leader that changes.

After a client's death what was delivered to it does not come again by itself, and the next acknowledgement would remove
it: a run that goes on from where the durable is loses it in silence.
"""

import time

from nats3_dagster_tests.faults import taking_jobs
from nats3_dagster_tests.faults.cluster_faults import lose_server, wait_for_leaders
from nats3_dagster_tests.faults.registry import fault
from nats3_dagster_tests.faults.taking_faults import OWN, Taking, make
from nats3_dagster_tests.faults.trial import ARCHIVE, Trial
from nats3_dagster_tests.faults.workload import created_ns
from nats3_dagster_tests.support.wire import Wire

# Since then servers acknowledge by flow control.
SINCE = (2, 14)
# The steps of a task at which it holds what it received; and with those of the driver, of a session.
TASK_STEPS = ("take.claimed", "take.object_put")
STEPS = (*TASK_STEPS, "take.before_commit", "take.committed")


@fault(
    "flow: task frozen", "a task is frozen past its heartbeat, its driver killed, and another run begins", since=SINCE
)
def task_frozen(trial: Trial) -> None:
    taking = make(trial, own=True)
    taking.publish(trial.random.randint(100, 400))
    with trial.held(trial.random.choice(TASK_STEPS), taking_jobs.take, ARCHIVE) as job:
        job.kill()
        if trial.random.random() < 0.5:
            time.sleep(1.5)
        taking.publish(trial.random.randint(1, 200))
        taking.run()  # it is told that another client receives
    trial.end(job, "run that was killed")
    taking.finish(exact=True)


@fault("flow: two clients", "a stranger hears the same subject, and acknowledges what it heard", since=SINCE)
def two_clients(trial: Trial) -> None:
    taking = make(trial, ("workqueue", "interest"), own=True)
    taking.publish(trial.random.randint(100, 400))
    with trial.held(trial.random.choice(TASK_STEPS), taking_jobs.take, ARCHIVE) as job, trial.wire() as wire:
        if trial.is_held:
            _acknowledge_all(trial, taking, wire)
        if trial.random.random() < 0.5:
            job.kill()
    trial.end(job, "run that was held")
    taking.finish(exact=False)


def _acknowledge_all(trial: Trial, taking: Taking, wire: Wire) -> None:
    """Answers the durable's flow control with all that it has delivered. What the archive does not have yet may be
    gone then."""
    created = created_ns(wire, trial.stream)
    until = time.monotonic() + 10
    info = wire.api(f"CONSUMER.INFO.{trial.stream}.{OWN}")
    with trial.wire() as listener:
        listener.answer_flow_control(info["config"]["deliver_subject"])
    while info["num_ack_pending"] and time.monotonic() < until:
        info = wire.api(f"CONSUMER.INFO.{trial.stream}.{OWN}")
    taking.gone |= {(created, seq) for seq in range(1, info["ack_floor"]["stream_seq"] + 1)}.intersection(taking.wanted)


@fault("flow: leader changes", "another server leads the durable, or its leader is killed", cluster=True, since=SINCE)
def leader_changes(trial: Trial) -> None:
    taking = make(trial, own=True)
    taking.publish(trial.random.randint(100, 400))
    with trial.held(trial.random.choice(STEPS), taking_jobs.take, ARCHIVE) as job:
        _change_leader(trial)
        if trial.random.random() < 0.5:
            wait_for_leaders(trial, trial.stream)
            taking.publish(trial.random.randint(1, 100))
    trial.end(job, "run that was held")
    wait_for_leaders(trial, trial.stream)
    taking.finish(exact=True)


def _change_leader(trial: Trial) -> None:
    with trial.wire() as wire:
        cluster = wire.try_api(f"CONSUMER.INFO.{trial.stream}.{OWN}").get("cluster") or {}
        if trial.random.random() < 0.5 or not cluster.get("leader"):
            wire.try_api(f"CONSUMER.LEADER.STEPDOWN.{trial.stream}.{OWN}")
            return
    lose_server(trial, trial.cluster[int(cluster["leader"][1:])])
