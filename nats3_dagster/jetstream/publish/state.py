"""The state of a publisher: one table holds everything that may happen to it.

Goals: a publisher sends in one state only, SENDING, and no way leads back to it. An event that a state has no entry
for is an error of the program. What comes from outside may come at any time: every state from SENDING on has entries
for FAILED, UNHEARD and SUPERSEDED. An end stays what it is.

The state changes in the connection's loop only, a few times for each connection and never for a message. It decides
what is sent, asked and answered; what went wrong is `Outbox.failure`, the first failure of all.

    OPENING -> SENDING -> CLOSING, ASKING or FAILED -> DONE, LOST, READ or UNREAD
    each before the end, when a newer attempt asks: -> STOPPING -> STOPPED or CUT -> DONE, LOST, READ or UNREAD
"""

from collections.abc import Mapping
from enum import Enum, auto


class State(Enum):
    """The states; the last four are ends."""

    # Connected. It looks for other attempts and for what this user may not do. No message was given.
    OPENING = auto()
    # Sends what it is given, as far as the window allows.
    SENDING = auto()
    # A message had no subscriber. It asks why: there is no stream, or no leader yet. Sends nothing.
    ASKING = auto()
    # There is a failure. Sends nothing.
    FAILED = auto()
    # A newer attempt has asked. Sends nothing, and makes sure that what it has sent is stored.
    STOPPING = auto()
    # All that it has sent is stored, and every question of other attempts is answered so.
    STOPPED = auto()
    # That was not certain in time: it has cut its connection. For the newer attempt this is the answer.
    CUT = auto()
    # The caller leaves a publisher without trouble. Sends nothing.
    CLOSING = auto()
    # Ended. Nothing is on its way that the target must be asked about.
    DONE = auto()
    # Ended. The server had closed the connection itself, or is gone; messages may still be on their way.
    LOST = auto()
    # Ended. The server has read everything that was sent; its streams may still be storing it.
    READ = auto()
    # Ended, and not known how far the server has read: it may still hold the connection, with messages in it.
    UNREAD = auto()

    @property
    def is_end(self) -> bool:
        """True if nothing leads on from here."""
        return self in ENDS


class Event(Enum):
    """The events of a publisher."""

    # No newer attempt publishes, and this user may do what a publisher does.
    OPENED = auto()
    # A message, the connection or the target has failed.
    FAILED = auto()
    # The server knows no subscriber for a message.
    UNHEARD = auto()
    # A newer attempt asks this one to stop.
    SUPERSEDED = auto()
    # The stream has surely stored all that was sent to it.
    STORED = auto()
    # That could not be known in time.
    UNSURE = auto()
    # The caller leaves.
    CLOSE = auto()
    # The connection is to end, and this is known of what was sent: see the ends of the same name.
    DONE = auto()
    LOST = auto()
    READ = auto()
    UNREAD = auto()


ENDS = frozenset({State.DONE, State.LOST, State.READ, State.UNREAD})

_TO_AN_END: Mapping[Event, State] = {
    Event.DONE: State.DONE,
    Event.LOST: State.LOST,
    Event.READ: State.READ,
    Event.UNREAD: State.UNREAD,
}

TRANSITIONS: Mapping[State, Mapping[Event, State]] = {
    State.OPENING: {
        Event.OPENED: State.SENDING,
        Event.FAILED: State.FAILED,
        Event.SUPERSEDED: State.STOPPING,
    },
    State.SENDING: {
        Event.FAILED: State.FAILED,
        Event.UNHEARD: State.ASKING,
        Event.SUPERSEDED: State.STOPPING,
        Event.CLOSE: State.CLOSING,
    },
    State.ASKING: {
        Event.FAILED: State.FAILED,
        Event.UNHEARD: State.ASKING,
        Event.SUPERSEDED: State.STOPPING,
        Event.CLOSE: State.ASKING,
        **_TO_AN_END,
    },
    State.FAILED: {
        Event.FAILED: State.FAILED,
        Event.UNHEARD: State.FAILED,
        Event.SUPERSEDED: State.STOPPING,
        Event.CLOSE: State.FAILED,
        **_TO_AN_END,
    },
    State.STOPPING: {
        Event.FAILED: State.STOPPING,
        Event.UNHEARD: State.STOPPING,
        Event.SUPERSEDED: State.STOPPING,
        Event.STORED: State.STOPPED,
        Event.UNSURE: State.CUT,
        Event.CLOSE: State.STOPPING,
        **_TO_AN_END,
    },
    State.STOPPED: {
        Event.FAILED: State.STOPPED,
        Event.UNHEARD: State.STOPPED,
        Event.SUPERSEDED: State.STOPPED,
        Event.CLOSE: State.STOPPED,
        **_TO_AN_END,
    },
    State.CUT: {
        Event.FAILED: State.CUT,
        Event.UNHEARD: State.CUT,
        Event.SUPERSEDED: State.CUT,
        Event.CLOSE: State.CUT,
        **_TO_AN_END,
    },
    State.CLOSING: {
        Event.FAILED: State.FAILED,
        Event.UNHEARD: State.ASKING,
        Event.SUPERSEDED: State.STOPPING,
        **_TO_AN_END,
    },
    # Between an end and that of its connection. The end of the connection is a loss of it.
    **{end: {Event.FAILED: end, Event.UNHEARD: end, Event.SUPERSEDED: end} for end in ENDS},
}


class ImpossibleEventError(RuntimeError):
    """An event that the table has no entry for: an error of the program."""


class Life:
    """The state of one publisher."""

    __slots__ = ("state",)

    def __init__(self) -> None:
        self.state = State.OPENING

    def on(self, event: Event) -> bool:
        """Takes an event, and returns True if it changes the state. Raises ImpossibleEventError."""
        before = self.state
        after = TRANSITIONS[before].get(event)
        if after is None:
            raise ImpossibleEventError(f"A publisher in the state {before.name} cannot take the event {event.name}")
        self.state = after
        return after is not before
