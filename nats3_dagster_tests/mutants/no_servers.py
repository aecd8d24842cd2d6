"""What a session of pure tests has before the first mutant. No part of the suite: crew.py names this file."""


def test_no_server_runs() -> None:
    """The fixtures of the session are set up by this test, and no thread is started, which a child would not have."""
