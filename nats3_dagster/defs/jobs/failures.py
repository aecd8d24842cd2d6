"""Failures as the UI and a shell show them.

An error that we foresee is shown as two sentences, what happened and what to do next. Where the asset has a retry
policy, the step is tried again unless the same again cannot help. Everything else keeps its traceback.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import click
from dagster import (
    AssetCheckExecutionContext,
    AssetExecutionContext,
    DagsterExecutionInterruptedError,
    Failure,
    OpExecutionContext,
)

from nats3_dagster.actor import in_run
from nats3_dagster.defs.instance.internals import (
    REPOSITORY_LABEL_TAG,
    DagsterUserCodeProcessError,
    SerializableErrorInfo,
)
from nats3_dagster.defs.keys import PROJECT, REPLAY_TAG, Naming
from nats3_dagster.defs.wording import STOPPED_REPLAY
from nats3_dagster.errors import (
    BucketRefused,
    ChunkError,
    EngineError,
    LostMessages,
    Nats3Error,
    OperatorError,
    Paused,
    StreamChanged,
    UnknownConsumer,
)
from nats3_dagster.redaction import redact_error

Context = AssetExecutionContext | AssetCheckExecutionContext | OpExecutionContext


# What the same again cannot help: the request, the stream or the archive has to change first.
_FINAL = (OperatorError, EngineError, UnknownConsumer, StreamChanged, LostMessages, Paused, BucketRefused, ChunkError)


class CannotLoad(DagsterUserCodeProcessError, click.ClickException):
    """The error if nothing can be defined or stored. Dagster's commands print a ClickException as one line; a code
    server, and with it the UI, shows of the other class `user_code_process_error_infos`, without Dagster's frames."""

    def __init__(self, error: Nats3Error, naming: Naming = PROJECT) -> None:
        super().__init__(error.text_in(naming.words), user_code_process_error_infos=[_without_frames(error, naming)])
        self.error = error


class CannotTick(DagsterUserCodeProcessError):
    """A Nats3Error as the end of a tick: its two sentences, without Dagster's frames around them."""

    def __init__(self, error: Nats3Error, naming: Naming = PROJECT) -> None:
        super().__init__(error.text_in(naming.words), user_code_process_error_infos=[_without_frames(error, naming)])


class ForeseenFailure(DagsterUserCodeProcessError, Failure):
    """A Nats3Error as a step's failure.

    Dagster prints a Failure with forty lines of its own frames, twice. For an error of the first class it shows
    `user_code_process_error_infos` instead: the sentences, and no frame."""

    def __init__(self, error: Nats3Error, naming: Naming = PROJECT) -> None:
        super().__init__(
            error.text_in(naming.words),
            metadata={"what": error.what, **({"next_step": error.hint_in(naming.words)} if error.hint else {})},
            allow_retries=not isinstance(error, _FINAL),
            user_code_process_error_infos=[_without_frames(error, naming)],
        )


class Stopped(DagsterUserCodeProcessError, DagsterExecutionInterruptedError):
    """The end of a run that was terminated, in one line. By the second class Dagster sees an interrupt, and the run
    ends as canceled."""

    def __init__(self, text: str) -> None:
        super().__init__(text, user_code_process_error_infos=[SerializableErrorInfo(text, [], type(self).__name__)])


def _without_frames(error: Nats3Error, naming: Naming) -> SerializableErrorInfo:
    return SerializableErrorInfo(error.text_in(naming.words), [], type(error).__name__)


@contextmanager
def tick_failures(naming: Naming) -> Iterator[None]:
    """Turn a Nats3Error of a sensor into the tick that shows it."""
    try:
        yield
    except Nats3Error as error:
        raise CannotTick(error, naming) from None
    except Exception as error:
        redact_error(error)  # Dagster stores its text
        raise


@contextmanager
def step_failures(context: Context, naming: Naming, stopped: str) -> Iterator[None]:
    """The work of a step: what it commits is recorded with its run. Turn a Nats3Error into the step's failure that
    shows it, and an interrupt into its end in one line: `stopped` says what is kept, unless the run has a replay. See
    to it that a shell shows it, and the UI the run of a shell."""
    if context.run.remote_job_origin is None:
        # `dagster job execute`: it shows a step's output by `tail`, which looks once a second where it has no inotify,
        # and ends it with the step. The last lines, which say what was done or what failed, would be lost.
        os.environ.setdefault("DAGSTER_COMPUTE_LOG_TAIL_WAIT_AFTER_FINISH", "1.2")
        # The UI lists the runs of a job by this tag, which Dagster gives to those alone that its daemon or UI starts.
        if naming.repository:
            context.instance.add_run_tags(context.run.run_id, {REPOSITORY_LABEL_TAG: naming.repository})
    try:
        with in_run(context.run.run_id):
            yield
    except Nats3Error as error:
        raise ForeseenFailure(error, naming) from None
    except (KeyboardInterrupt, DagsterExecutionInterruptedError):
        run = context.instance.get_run_by_id(context.run.run_id)
        replay = run.tags.get(REPLAY_TAG) if run else None
        raise Stopped(STOPPED_REPLAY.format(replay=replay) if replay else stopped) from None
    except Exception as error:
        redact_error(error)  # Dagster stores its text
        raise
