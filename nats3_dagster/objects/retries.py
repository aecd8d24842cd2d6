"""Refusals that pass: a request is made again where AWS' own SDK does so, or S3's documentation says so.

Invariant: S3's error code decides. A conflict with another request is not the news that an object is there, and a
request that came too late is not a bad one. obstore itself makes a request again after 5xx, 429 and a lost connection
only, and takes each 409 for an object that exists (arrow-rs-object-store 138 and 852).
"""

import re
import time
from collections.abc import Callable
from enum import Enum, auto
from typing import Final, TypeVar

from obstore.exceptions import BaseError

ResultT = TypeVar("ResultT")
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 2.0
# A large upload is refused after a longer time than our patience.
TRIES_OF_UPLOADS: Final = 4


class Passing(Enum):
    """The patience with a refused request: how often it is made again."""

    NEVER = auto()
    # What does not pass at once stays: the clock of this machine is wrong.
    ONCE = auto()
    # As long as our patience lasts.
    LONG = auto()


_CODES: Final = {
    "ConditionalRequestConflict": Passing.LONG,
    "OperationAborted": Passing.LONG,
    "RequestTimeout": Passing.LONG,
    "BadDigest": Passing.LONG,  # the bytes were altered on their way
    "RequestTimeTooSkewed": Passing.ONCE,
}


def of_code(code: str) -> Passing:
    """Returns how often a request with S3's error code is made again."""
    return _CODES.get(code, Passing.NEVER)


def of_obstore(error: BaseError) -> Passing:
    """Returns how often a request with an error of obstore, whose text is its only content, is made again."""
    text = str(error)
    if match := re.search(r"<Code>\s*([\w.]+)", text):
        return of_code(match[1])
    # The answer to a HEAD has no code.
    return Passing.ONCE if re.search(r"HEAD http.* status code: 4(00|03|09)", text) else Passing.NEVER


def again(
    call: Callable[[], ResultT],
    patience_s: float,
    *,
    kinds: type[Exception] | tuple[type[Exception], ...] = BaseError,
    passing: Callable[..., Passing] = of_obstore,
    tries: int = 1,
) -> ResultT:
    """The result of the call, which is made again while it fails with an error of these kinds that passes: for this
    time, or this number of tries if they take longer."""
    end, pause_s, done = time.monotonic() + patience_s, _FIRST_PAUSE_S, 0
    while True:
        try:
            return call()
        except kinds as error:
            done += 1
            reason = passing(error)
            if reason is Passing.NEVER or (reason is Passing.ONCE and done > 1):
                raise
            if done >= tries and time.monotonic() + pause_s > end:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
