"""The run of an account's restore: its streams are made several at a time, origins first.

Invariant: a stream is whole and compared, or it is not there. A run that stopped is run again: what it had made is
found by the record of it, or by a comparison with the archive, and the rest is made.
"""

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace

import pyarrow as pa

from nats3_dagster.archive.account_restore.fill import check_filled
from nats3_dagster.archive.account_restore.order import levels
from nats3_dagster.archive.account_restore.spec import AccountRestorePlan, StreamRestore
from nats3_dagster.archive.restore.proof import compare
from nats3_dagster.archive.restore.run import restore
from nats3_dagster.errors import Conflict, Nats3Error, WrongState
from nats3_dagster.fault_points import fault_point
from nats3_dagster.jetstream.read.reader import ReadSpec
from nats3_dagster.jetstream.streams import create_stream, stream_state
from nats3_dagster.model import SeqRange, StreamState
from nats3_dagster.workspace import Workspace


@dataclass(frozen=True, slots=True)
class StreamRestored:
    """The end of one stream of an account's restore."""

    one: StreamRestore
    # As the server describes it; None where there is none.
    state: StreamState | None = None
    # Messages that were restored.
    messages: int = 0
    # Messages that were compared with the archive, or with the origin of a mirror, and are equal.
    compared: int = 0
    # Messages that their own time to live, or a limit of the stream, removed.
    ended: int = 0
    # Seconds that it took.
    seconds: float = 0.0
    # Why it is not there, or not as it is to be.
    error: Nats3Error | None = None


class Stopped(Exception):
    """The run was interrupted."""


def run(
    workspace: Workspace,
    planned: AccountRestorePlan,
    *,
    verify: bool = True,
    on_progress: Callable[[int], object] = int,
) -> tuple[StreamRestored, ...]:
    """Make the streams of the plan, each by itself: one that fails does not stop the others. `on_progress` is called
    with the number of messages that were sent of all.

    Raises WrongState, and makes nothing, where the plan or a comparison refuses."""
    if planned.refusal:
        raise planned.refusal
    # It imports pandas when it is first used. In a thread, an interrupt of this one leaves it half imported (seen).
    pa.array([b""], pa.binary()).to_numpy(zero_copy_only=False)
    working = _Working(workspace, planned, verify, on_progress)
    compared = working.compare()
    groups = levels(one for one in planned.streams if one.action in ("restore", "make", "compare", "done"))
    made = [done for group in groups for done in working.all(group, compared)]
    gone = [StreamRestored(one) for one in planned.streams if one.action == "left_out"]
    return (*made, *gone)


class _Working:
    def __init__(
        self, workspace: Workspace, planned: AccountRestorePlan, verify: bool, on_progress: Callable[[int], object]
    ) -> None:
        self._workspace, self._planned, self._verify = workspace, planned, verify
        self._on_progress, self._lock, self._sent = on_progress, threading.Lock(), dict[str, int]()
        self._stop = threading.Event()
        # Streams that could not be made.
        self._failed = set[str]()

    def compare(self) -> dict[str, StreamRestored]:
        """Compare streams that are there with the archive. Raises WrongState with the first one that is another."""
        there = [one for one in self._planned.streams if one.action == "compare"]
        found = self._each(there, self._compared)
        for done in found:
            if done.error:
                one = done.one
                raise WrongState(
                    f"Stream {one.stream} exists, and is not as archive {one.archive} has it: {done.error.what}",
                    "Delete it or leave it out, and restore again: nothing was changed",
                )
        return {done.one.stream: done for done in found}

    def all(self, group: Sequence[StreamRestore], compared: dict[str, StreamRestored]) -> list[StreamRestored]:
        """Make the streams of a group, whose origins were made before, or could not be."""

        def work(one: StreamRestore) -> StreamRestored:
            if failed := [name for name in one.origins if name in self._failed]:
                raise WrongState(f"{failed[0]}, which it is filled from, was not restored", "Run it again after that")
            return self._made(one, compared.get(one.stream))

        made = self._each(group, work)
        self._failed |= {done.one.stream for done in made if done.error}
        return made

    def _each(
        self, streams: Sequence[StreamRestore], work: Callable[[StreamRestore], StreamRestored]
    ) -> list[StreamRestored]:
        with ThreadPoolExecutor(self._planned.spec.at_once) as threads:
            futures: list[Future[StreamRestored]] = [threads.submit(self._timed, work, one) for one in streams]
            try:
                wait(futures)
            except BaseException:
                self._stop.set()
                threads.shutdown(cancel_futures=True)
                raise
            return [future.result() for future in futures]

    def _timed(self, work: Callable[[StreamRestore], StreamRestored], one: StreamRestore) -> StreamRestored:
        began = time.monotonic()
        try:
            self._check_stop()
            done = work(one)
        except Nats3Error as error:
            if error.ends_all:
                raise
            return StreamRestored(one, seconds=time.monotonic() - began, error=error)
        return replace(done, seconds=time.monotonic() - began)

    def _compared(self, one: StreamRestore) -> StreamRestored:
        assert one.planned
        state = stream_state(self._workspace.link, one.stream)
        one.check_reached(state)
        if not one.messages:
            return StreamRestored(one, state)
        proof = compare(self._workspace, one.planned, ReadSpec(state.incarnation, SeqRange(1, one.planned.last_seq)))
        return StreamRestored(one, state, 0, proof.equal, proof.ended)

    def _made(self, one: StreamRestore, compared: StreamRestored | None) -> StreamRestored:
        workspace, restores = self._workspace, self._workspace.catalog.account_restores
        fault_point("account.restore")
        messages = 0
        if one.action == "restore":
            assert one.planned
            try:
                done = restore(
                    workspace, one.planned, verify=self._verify, on_progress=lambda sent: self._count(one, sent)
                )
            except (WrongState, Conflict) as error:
                raise WrongState(
                    f"Another process makes stream {one.stream}, or has made it meanwhile: {error.what}",
                    "Run it again when that has ended: what is there is compared then",
                ) from error
            state, equal = done.state, done.proof.equal if done.proof else 0
            ended, messages = done.proof.ended if done.proof else 0, done.messages
            fault_point("account.restored")
            restores.add_restored(self._planned.kept, state, self._planned.spec.to_ns)
        elif one.action == "make":
            state, equal, ended = create_stream(workspace.link, one.wanted), 0, 0
        else:
            state, equal, ended = stream_state(workspace.link, one.stream), 0, 0
            if compared:
                equal, ended = compared.compared, compared.ended
                restores.add_restored(self._planned.kept, state, self._planned.spec.to_ns)
        if self._verify and not one.planned:
            equal = check_filled(workspace.link, one, self._check_stop)
        return StreamRestored(one, state, messages, equal, ended)

    def _count(self, one: StreamRestore, sent: int) -> None:
        self._check_stop()
        with self._lock:
            self._sent[one.stream] = sent
            self._on_progress(sum(self._sent.values()))

    def _check_stop(self) -> None:
        if self._stop.is_set():
            raise Stopped
