"""Calls at the same instant."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest

from nats3_dagster.errors import Nats3Error

LIMIT_S = 30


def race(*calls: Callable[[], Any]) -> list[Any]:
    """Run each in a thread of its own, at once; its result, or the error of ours that it raised."""

    def run(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Nats3Error as error:
            return error

    with ThreadPoolExecutor(len(calls)) as pool:
        return list(pool.map(run, calls))


def meet(monkeypatch: pytest.MonkeyPatch, where: Any, name: str, *, parties: int = 2) -> None:
    """The first calls of this function wait for one another when they have their results."""
    real, barrier, calls = getattr(where, name), Barrier(parties), iter(range(parties))

    def met(*args: Any, **kwargs: Any) -> Any:
        result = real(*args, **kwargs)
        if next(calls, None) is not None:
            barrier.wait(LIMIT_S)
        return result

    monkeypatch.setattr(where, name, met)


def errors(results: list[Any]) -> list[Nats3Error]:
    return [result for result in results if isinstance(result, Nats3Error)]
