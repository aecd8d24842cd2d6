"""One ephemeral pull consumer over a range of a stream, in the loop of its connection.

Invariants: what the caller has not processed bounds what is asked for. What is sent is the copy of the stream's leader,
because another replica may have lost messages. The end is proven: the consumer numbered all messages without a hole,
and the last one lies at or beyond the range's end, or the stream's leader holds none after it.
"""

import asyncio
import json
import secrets
from collections.abc import Callable
from typing import Any

from nats.aio.msg import Msg

from nats3_dagster.errors import SourceError, StreamChanged
from nats3_dagster.hours import SECOND_NS
from nats3_dagster.jetstream.api import Refused, leader_of, request
from nats3_dagster.jetstream.client import Connection
from nats3_dagster.jetstream.codes import ErrCode, Status, pull_request_ended
from nats3_dagster.jetstream.read.breaks import Lost, behind
from nats3_dagster.jetstream.read.contents import first_held
from nats3_dagster.jetstream.read.frames import last_ack
from nats3_dagster.jetstream.read.scan import FrameError, Frames
from nats3_dagster.jetstream.streams import same_stream_info, stream_changed
from nats3_dagster.model import Incarnation, SeqRange, StreamState

# A pull request ends at either; two are always under way, so that the server never waits for one.
PULL_MESSAGES = 32_768
PULL_BYTES = 8 << 20
# No new request while the caller has this much to take: with two requests under way it bounds memory to 32 MiB, or to
# a few times the largest message.
ROOM_BYTES = 16 << 20
HEARTBEAT_S = 1.0
EXPIRES_S = 30.0
# A consumer whose reader died is gone after this; a reader that is held up longer makes a new one.
INACTIVE_S = 60
# A server draws the replica that gets a consumer. With five replicas, one in a million reads gets none on the leader.
DRAWS = 64


class End:
    """Everything of the range was delivered."""


Item = list[Frames] | End | SourceError


class RangeConsumer:
    """Calls `deliver`, in the loop's thread: with lists of Frames, then with an End or an error, and then never again.

    A list has at least `batch_rows` messages or `batch_bytes` bytes of frames, but for the last one."""

    def __init__(
        self,
        client: Connection,
        incarnation: Incarnation,
        seqs: SeqRange,
        filters: tuple[str, ...],
        headers_only: bool,
        batch_rows: int,
        batch_bytes: int,
        deliver: Callable[[Item], None],
    ) -> None:
        self._client, self._incarnation, self._seqs, self._headers_only = client, incarnation, seqs, headers_only
        self._batch_rows, self._batch_bytes, self._deliver = batch_rows, batch_bytes, deliver
        self.name = ""
        self.marker = b""
        self.filters = filters  # that the server applies; empty when it sends everything
        self._inbox = client.new_inbox()
        self._requests = 0  # pull requests made
        self._asked = self._received = 0  # messages
        self._last_seen = seqs.first - 1  # sequence
        self._blocks: list[Frames] = []  # for the next batch, with its messages and bytes
        self._rows = self._size = 0
        self._unprocessed = 0  # bytes delivered that the caller has not processed yet
        self._max_bytes = max(PULL_BYTES, client.max_payload + (64 << 10))
        self._ended = False
        self._activity = asyncio.Event()  # the server sent something
        self._watch: asyncio.Task[None] | None = None
        # The consumer says that nothing is pending. Nothing is concluded from that before the leader has confirmed it.
        self._drained = False
        self._confirming: asyncio.Task[None] | None = None
        self.server = ""  # the server that the consumer is on; empty without a cluster
        self._inactive_ns = INACTIVE_S * SECOND_NS  # less where the stream limits it

    async def open(self) -> None:
        """Make the consumer and ask for the first messages. Raises StreamChanged or SourceError."""
        created, state = await self._create_on_leader()
        if state.first_seq > self._seqs.last:  # the leader's word
            self._finish(End())
            return
        if not created["num_pending"]:
            self._drained = True
            await self._confirm()
            return
        sub = await self._client.subscribe(f"{self._inbox}.*", cb=self._on_status)  # pyright: ignore[reportUnknownMemberType]
        self.marker = b" %d $JS.ACK." % sub._id  # pyright: ignore[reportPrivateUsage]
        self._client.divert(self.marker, self._on_frames)
        # A pull request that overtakes the subscription would be dropped for want of interest.
        await self._client.flush()
        self._client.on_loss.append(lambda: self._finish(Lost("The connection to NATS was lost")))
        self._watch = asyncio.create_task(self._watch_over())
        self._pull()

    async def close(self) -> None:
        """Delete the consumer; a server that is away deletes it by itself."""
        self._ended = True
        for task in (self._watch, self._confirming):
            if task:
                task.cancel()
        if self._client.is_connected:
            await delete_consumer(self._client, self._incarnation.read_stream, self.name)

    def processed(self, size: int) -> None:
        """The caller processed what was delivered as `size` bytes of frames."""
        self._unprocessed -= size
        self._pull()

    async def _create_on_leader(self) -> tuple[dict[str, Any], StreamState]:
        """The consumer on the server that leads the stream, and the stream's state after it was made.

        A replica whose disk lost a block sends the rest of its copy silently, and numbers that without a hole: its
        missing messages would count as deleted."""
        for _ in range(DRAWS):
            self.name = f"nats3-{secrets.token_hex(8)}"
            created = await self._create()
            self.server = leader_of(created)
            # Asked after the consumer was made: had the stream been made again before, this would show it.
            state = await same_stream_info(self._client, self._incarnation)
            if self.server in ("", state.leader) or not state.leader:
                return created, state
            await delete_consumer(self._client, self._incarnation.read_stream, self.name)
        raise SourceError(
            f"None of {DRAWS} consumers of {self._incarnation.stream} was put on the server that leads it",
            "Let another server lead it (nats stream cluster step-down)",
        )

    async def _create(self) -> dict[str, Any]:
        config: dict[str, Any] = {
            "name": self.name,
            "ack_policy": "none",
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self._seqs.first,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": self._inactive_ns,
            "headers_only": self._headers_only,
        }
        if len(self.filters) == 1:
            config["filter_subject"] = self.filters[0]
        elif self.filters:
            config["filter_subjects"] = list(self.filters)
        stream = self._incarnation.read_stream
        try:
            created = await request(
                self._client, f"CONSUMER.CREATE.{stream}.{self.name}", {"stream_name": stream, "config": config}
            )
        except Refused as error:
            if error.code == ErrCode.STREAM_NOT_FOUND:
                raise stream_changed(self._incarnation, "deleted", stream) from error
            if error.code in (ErrCode.FILTER_NOT_IN_STREAM, ErrCode.FILTERS_OVERLAP) and self.filters:
                # 2.9 refuses filters wider than the stream's subjects: then the caller selects.
                self.filters = ()
                return await self._create()
            limit = await self._inactive_limit() if error.code == ErrCode.INACTIVE_THRESHOLD else 0
            if 0 < limit < self._inactive_ns:
                self._inactive_ns = limit
                return await self._create()
            raise
        if len(self.filters) > 1 and not created["config"].get("filter_subjects"):
            # The stream's server is older than the connection's, as it may be in another domain: it sends everything.
            self.filters = ()
        return created

    async def _inactive_limit(self) -> int:
        """The inactive_threshold that the stream's consumers may have at most, in nanoseconds; 0 for any. A reader that
        is held up for longer makes another consumer."""
        state = await same_stream_info(self._client, self._incarnation)
        limits: dict[str, Any] = state.config.get("consumer_limits") or {}
        return int(limits.get("inactive_threshold") or 0)

    def _on_frames(self, frames: Frames) -> None:
        if self._ended:
            return
        try:
            ack = last_ack(frames, self.marker)
        except FrameError as error:
            self._finish(error)
            return
        self._activity.set()
        self._received += len(frames)
        if ack.consumer_seq != self._received:
            self._finish(Lost(f"The server skipped messages: {ack.consumer_seq} sent, {self._received} came"))
            return
        self._last_seen = ack.seq
        self._blocks.append(frames)
        self._rows += len(frames)
        self._size += frames.size
        if ack.seq >= self._seqs.last:
            self._finish(End())
            return
        self._drained = not ack.pending
        if self._drained:
            self._start_confirming()
        if self._rows >= self._batch_rows or self._size >= self._batch_bytes:
            self._hand_over()
        self._pull()

    def _start_confirming(self) -> None:
        if self._confirming is None or self._confirming.done():
            self._confirming = asyncio.create_task(self._confirm())

    async def _confirm(self) -> None:
        try:
            await self._confirm_end()
        except StreamChanged as error:
            self._finish(error)
        except SourceError as error:
            self._finish(Lost(f"The end of the read cannot be confirmed: {error.what}", error.hint))

    async def _confirm_end(self) -> None:
        """End the read where the stream's leader holds no message of it after the last one seen.

        Only what comes after needs proof. A replica stores in the leader's order, so one that lags has all that the
        leader has up to its own last message; and a consumer sends in order and numbers without a hole."""
        while self._drained and not self._ended:  # it may send more meanwhile: then ask again, or go on
            seen = self._last_seen
            rest = SeqRange(seen + 1, self._seqs.last)
            seq = await first_held(self._client, self._incarnation, rest, self.filters)
            if seq is None:
                self._finish(End())
            elif self._last_seen == seen:
                self._finish(behind(self._incarnation.stream, self.server, seen, seq))

    def _hand_over(self) -> None:
        if self._blocks:
            self._unprocessed += self._size
            self._deliver(self._blocks)
            self._blocks, self._rows, self._size = [], 0, 0

    def _finish(self, end: End | SourceError) -> None:
        if not self._ended:
            self._ended = True
            self._hand_over()
            self._deliver(end)

    def _pull(self) -> None:
        """Keep two requests under way while there is room, and never ask for more than the range can still hold."""
        while not self._ended and self._unprocessed < ROOM_BYTES:
            under_way = self._asked - self._received
            count = min(PULL_MESSAGES, self._seqs.last - self._last_seen - under_way)
            if under_way > PULL_MESSAGES or count <= 0:
                return
            self._requests += 1
            self._asked += count
            body = {
                "batch": count,
                "max_bytes": self._max_bytes,
                "expires": int(EXPIRES_S * SECOND_NS),
                "idle_heartbeat": int(HEARTBEAT_S * SECOND_NS),
            }
            self._client.post(
                f"{self._client.api}.CONSUMER.MSG.NEXT.{self._incarnation.read_stream}.{self.name}",
                f"{self._inbox}.{self._requests}",
                json.dumps(body).encode(),
            )

    async def _on_status(self, message: Msg) -> None:
        """The status of a pull request. Messages never come here, whatever their headers are called."""
        headers = message.headers or {}
        status, text = headers.get("Status", ""), headers.get("Description", "")
        self._activity.set()
        if status == Status.HEARTBEAT or self._ended:
            return
        if pull_request_ended(status, text):
            if headers.get("Nats-Pending-Bytes") == str(self._max_bytes):
                self._max_bytes *= 2  # stored when the server's max_payload was larger than it is now
            self._asked -= min(int(headers.get("Nats-Pending-Messages") or 0), self._asked - self._received)
            self._pull()
        else:
            self._finish(Lost(f"The server ended the consumer: {status} {text}".strip()))

    async def _watch_over(self) -> None:
        """Ask for the consumer's state when the server falls silent, or idles and has sent less than was asked for."""
        received = -1
        while not self._ended:
            self._activity.clear()
            try:
                await asyncio.wait_for(self._activity.wait(), 3 * HEARTBEAT_S)
            except TimeoutError:
                if self._asked == self._received:
                    continue  # the caller is busy, and nothing was asked for
            if self._received != received:
                received = self._received
                continue
            await self._probe()

    async def _probe(self) -> None:
        received = self._received
        try:
            path = f"CONSUMER.INFO.{self._incarnation.read_stream}.{self.name}"
            info = await request(self._client, path, patience_s=0)
        except SourceError as error:
            self._finish(Lost(f"The consumer does not answer: {error.what}"))
            return
        if received != self._received:
            return
        if info["delivered"]["consumer_seq"] != received:
            self._finish(Lost(f"The server sent {info['delivered']['consumer_seq']} messages, {received} came"))
        elif not info["num_pending"]:  # what was still pending may have been deleted from the stream meanwhile
            self._drained = True
            self._start_confirming()
        elif self._asked > received:
            self._finish(Lost("The server does not send what is pending"))


async def delete_consumer(client: Connection, stream: str, name: str) -> None:
    """Deletes an own consumer if it still exists and the server answers."""
    try:
        await request(client, f"CONSUMER.DELETE.{stream}.{name}", patience_s=0)
    except SourceError:
        return
