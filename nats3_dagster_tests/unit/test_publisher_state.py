"""A publisher's states, against a model of what is promised of them: it sends in one state, for one stretch of time;
trouble ends that, whatever comes then; and an end stays what it is.
"""

import itertools

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nats3_dagster.jetstream.publish.batch import STEPS, Phase, Step
from nats3_dagster.jetstream.publish.state import ENDS, TRANSITIONS, Event, ImpossibleEventError, Life, State

# The ends by what is known of the messages that were sent.
END_OF = {
    Event.DONE: State.DONE,
    Event.LOST: State.LOST,
    Event.READ: State.READ,
    Event.UNREAD: State.UNREAD,
}
# The server, the network and other attempts cause these at any time.
FROM_OUTSIDE = {Event.FAILED, Event.UNHEARD, Event.SUPERSEDED}
SUPERSEDED = {State.STOPPING, State.STOPPED, State.CUT}


def after(state: State, event: Event) -> State | None:
    """Returns the state that an event leads to; None if the event cannot come in this state."""
    if state in END_OF.values():
        return state if event in FROM_OUTSIDE else None
    if event in END_OF:
        return None if state in {State.OPENING, State.SENDING} else END_OF[event]
    match event:
        case Event.OPENED:
            return State.SENDING if state is State.OPENING else None
        case Event.SUPERSEDED:
            return state if state in SUPERSEDED else State.STOPPING
        case Event.FAILED:
            return state if state in SUPERSEDED else State.FAILED
        case Event.UNHEARD if state is not State.OPENING:
            return state if state in SUPERSEDED | {State.FAILED} else State.ASKING
        case Event.CLOSE if state not in {State.OPENING, State.CLOSING}:
            return State.CLOSING if state is State.SENDING else state
        case Event.STORED | Event.UNSURE if state is State.STOPPING:
            return State.STOPPED if event is Event.STORED else State.CUT
        case _:
            return None


class Publisher(RuleBasedStateMachine):
    """A publisher's life, beside the model."""

    def __init__(self) -> None:
        super().__init__()
        self.life, self.state, self.has_sent = Life(), State.OPENING, False

    @precondition(lambda self: self.state not in END_OF.values())
    @rule(data=st.data())
    def something_happens(self, data: st.DataObject) -> None:
        possible = [event for event in Event if after(self.state, event)]
        event = data.draw(st.sampled_from(possible))
        before, self.state = self.state, after(self.state, event) or self.state
        assert self.life.on(event) == (self.state is not before)

    @rule(event=st.sampled_from(sorted(FROM_OUTSIDE, key=lambda event: event.value)))
    def something_comes_from_outside(self, event: Event) -> None:
        if expected := after(self.state, event):
            self.life.on(event)
            self.state = expected

    @rule(event=st.sampled_from(Event))
    def what_cannot_be_changes_nothing(self, event: Event) -> None:
        if after(self.state, event) is None:
            with pytest.raises(
                ImpossibleEventError, match=f"state {self.state.name} cannot take the event {event.name}"
            ):
                self.life.on(event)

    @invariant()
    def it_is_as_the_model(self) -> None:
        assert self.life.state is self.state
        assert self.life.state.is_end == (self.state in END_OF.values())

    @invariant()
    def it_sends_for_one_stretch_of_time(self) -> None:
        assert not (self.has_sent and self.life.state is State.OPENING)
        if self.life.state is State.SENDING:
            self.has_sent = True
        elif self.has_sent:
            assert State.SENDING not in reachable(self.life.state)


TestPublisher = Publisher.TestCase
TestPublisher.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)


def reachable(start: State) -> set[State]:
    """Returns the states that some course of events leads to, with the first one."""
    found, waiting = {start}, [start]
    while waiting:
        new = set(TRANSITIONS[waiting.pop()].values()) - found
        found |= new
        waiting += new
    return found


def test_each_event_in_each_state() -> None:
    wrong = [
        (state.name, event.name)
        for state, event in itertools.product(State, Event)
        if TRANSITIONS[state].get(event) is not after(state, event)
    ]
    assert wrong == []


def test_every_state_is_reached_and_comes_to_an_end() -> None:
    assert reachable(State.OPENING) == set(State)
    assert [state for state in State if not reachable(state) & ENDS] == []
    assert set(END_OF.values()) == ENDS


def test_it_has_stopped_only_after_everything_is_stored() -> None:
    ways = {(state, event) for state, row in TRANSITIONS.items() for event, to in row.items() if to is State.STOPPED}
    assert {(state, event) for state, event in ways if state is not State.STOPPED} == {(State.STOPPING, Event.STORED)}


def phase_after(phase: Phase, step: Step) -> Phase | None:
    """Returns the phase that a step of a batch leads to; None if the step cannot come in this phase."""
    is_open = phase in {Phase.OPEN, Phase.PINGED}
    match step:
        case Step.BEGIN:
            return Phase.OPEN if phase is Phase.NONE else None
        case Step.ANSWERED if phase is not Phase.NONE:
            return Phase.OPEN if is_open else phase
        case Step.PING if is_open or phase is Phase.ENDING:
            return Phase.PINGED if is_open else phase
        case Step.END if is_open:
            return Phase.ENDING
        case Step.SENT_END if phase is Phase.ENDING:
            return Phase.ENDED
        case Step.CONFIRMED if phase is Phase.ENDED:
            return Phase.NONE
        case _:
            return None


def test_each_step_in_each_phase_of_a_batch() -> None:
    """An answer may come in any phase while there is a batch; an end is sent and confirmed once."""
    wrong = [
        (phase.name, step.name)
        for phase, step in itertools.product(Phase, Step)
        if STEPS[phase].get(step) is not phase_after(phase, step)
    ]
    assert wrong == []
