"""The bulk path: nats-py's parser, with the frames of one subscription taken out of it in blocks.

The rule kept here: whatever is not a bulk frame goes to nats-py's own parser, whole, in its order; and nothing but
ProtocolError leaves this module, because nats-py reconnects on that and stops reading for good on anything else.
"""

from collections.abc import Callable

from nats.errors import ProtocolError
from nats.protocol.parser import Parser

from nats3_dagster.jetstream.scan import FrameError, Frames, frame_end, scan

# More than any payload a server can be configured for (64 MiB): a length beyond it is garbage and not a message.
MAX_FRAME = 1 << 28


class BulkParser(Parser):
    """Fed with what the socket delivered. Bulk frames are those whose control line holds the marker."""

    _marker: bytes | None = None
    _sink: Callable[[Frames], None] | None = None

    def divert(self, marker: bytes, sink: Callable[[Frames], None]) -> None:
        """From now on hand frames with `marker` in their control line to `sink`, in blocks."""
        self._marker, self._sink = marker, sink

    def reset(self) -> None:
        """Forget what came before: the connection is a new one."""
        super().reset()
        self._held: list[bytes] = []
        self._held_size = 0
        self._needed = 0

    async def parse(self, data: bytes = b"") -> None:
        """Take all complete frames out of what came so far. Raises ProtocolError."""
        self._held.append(data)
        self._held_size += len(data)
        # A large message comes in many reads: joining them at each would copy it again and again.
        if self._held_size < self._needed:
            return
        buffer = data if len(self._held) == 1 else b"".join(self._held)
        self._held, self._held_size, self._needed = [], 0, 0
        try:
            at = await self._take(buffer)
        except (ProtocolError, OSError):
            raise
        except Exception as error:
            raise ProtocolError from error
        if at < len(buffer):
            self._held = [buffer[at:]]
            self._held_size = len(buffer) - at

    async def _take(self, buffer: bytes) -> int:
        at = 0
        while at < len(buffer):
            if self._marker is not None and self._sink is not None:
                frames = scan(buffer, at, self._marker)
                if len(frames):
                    self._sink(frames)
                    at = frames.end
                    continue
            end = frame_end(buffer, at)
            if end > len(buffer):
                if end - at > MAX_FRAME:
                    raise FrameError(f"NATS announced a message of {end - at} bytes")
                self._needed = end - at
                break
            await super().parse(buffer[at:end])
            at = end
        return at
