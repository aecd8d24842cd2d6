"""The table of a publisher's states: complete, without ways back, and closed at its ends."""

import itertools

import pytest

from nats3_dagster.jetstream.publish.batch import STEPS, Phase, Step
from nats3_dagster.jetstream.publish.state import ENDS, TRANSITIONS, Event, ImpossibleEventError, Life, State

# The server, the network and other attempts cause these at any time.
FROM_OUTSIDE = (Event.FAILED, Event.UNHEARD, Event.SUPERSEDED)
# No message is sent in any other state.
BEFORE_THE_END_OF_SENDING = {State.OPENING, State.SENDING}


def life_in(state: State) -> Life:
    life = Life()
    life.state = state
    return life


def reachable(start: State) -> set[State]:
    """Returns the states that some course of events leads to, with the first one."""
    found, waiting = {start}, [start]
    while waiting:
        new = set(TRANSITIONS[waiting.pop()].values()) - found
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize(("state", "event"), list(itertools.product(State, Event)), ids=lambda value: value.name)
def test_a_pair_is_in_the_table_or_raises(state: State, event: Event) -> None:
    life, after = life_in(state), TRANSITIONS[state].get(event)
    if after is None:
        with pytest.raises(ImpossibleEventError, match=f"state {state.name} cannot take the event {event.name}"):
            life.on(event)
        assert life.state is state
    else:
        assert life.on(event) == (after is not state)
        assert life.state is after


def test_the_table_has_every_state_and_nothing_else() -> None:
    assert set(TRANSITIONS) == set(State)
    assert {event for row in TRANSITIONS.values() for event in row} == set(Event)


def test_every_state_is_reached() -> None:
    assert Life().state is State.OPENING
    assert reachable(State.OPENING) == set(State)


def test_every_state_comes_to_an_end() -> None:
    assert [state for state in State if not reachable(state) & ENDS] == []


def test_an_end_has_no_exit() -> None:
    assert {state for state in State if reachable(state) == {state}} == ENDS
    assert {state for state in State if state.is_end} == ENDS


def test_no_way_leads_back_to_sending() -> None:
    for state in set(State) - BEFORE_THE_END_OF_SENDING:
        assert not reachable(state) & BEFORE_THE_END_OF_SENDING, state
    assert State.OPENING not in reachable(State.SENDING)


def test_an_event_from_outside_is_taken_once_messages_are_sent() -> None:
    missing = [
        (state.name, event.name)
        for state in reachable(State.SENDING)
        for event in FROM_OUTSIDE
        if event not in TRANSITIONS[state]
    ]
    assert missing == []


def test_a_newer_attempt_stops_it_once() -> None:
    """The second question is answered, and does not begin to stop it again."""
    for state in set(State) - ENDS:
        life = life_in(state)
        life.on(Event.SUPERSEDED)
        assert life.state in {State.STOPPING, State.STOPPED, State.CUT}
        assert not life.on(Event.SUPERSEDED)


def test_it_has_stopped_only_after_everything_is_stored() -> None:
    ways = {(state, event) for state, row in TRANSITIONS.items() for event, to in row.items() if to is State.STOPPED}
    assert {(state, event) for state, event in ways if state is not State.STOPPED} == {(State.STOPPING, Event.STORED)}


def test_the_phases_of_a_batch() -> None:
    """Each is reached, and each leads back to the one between two batches; an answer may come in any while there is a
    batch, and an end is sent and confirmed once."""
    assert set(STEPS) == set(Phase)
    assert {step for row in STEPS.values() for step in row} == set(Step)
    for phase in Phase:
        found, waiting = {phase}, [phase]
        while waiting:
            new = set(STEPS[waiting.pop()].values()) - found
            found |= new
            waiting += new
        assert found == set(Phase), phase
    assert [phase for phase in Phase if Step.ANSWERED not in STEPS[phase]] == [Phase.NONE]
    leading = {step: [phase for phase in Phase if step in STEPS[phase]] for step in Step}
    assert leading[Step.BEGIN] == [Phase.NONE]
    assert leading[Step.SENT_END] == [Phase.ENDING]
    assert leading[Step.CONFIRMED] == [Phase.ENDED]
