"""The streams and the archive of a demo: names that nothing has yet.

Invariant: a demo deletes and changes nothing. The user may have put own data into the results of an earlier one.
"""

from dataclasses import dataclass

from nats3_dagster.errors import OperatorError
from nats3_dagster.jetstream.streams import stream_names, streams_listening
from nats3_dagster.workspace import Workspace

# Each costs two requests.
_NUMBERS = 100


@dataclass(frozen=True, slots=True)
class Names:
    """The names that the demo with this number uses: LOGS and LOGS_REPLAY, LOGS_2 and LOGS_2_REPLAY, and so on."""

    number: int

    @property
    def archive(self) -> str:
        """The name of the archive, which is the first token of the subjects too."""
        return "logs" if self.number == 1 else f"logs_{self.number}"

    @property
    def stream(self) -> str:
        return self.archive.upper()

    @property
    def target(self) -> str:
        return f"{self.stream}_REPLAY"

    @property
    def read(self) -> str:
        """The subjects of the stream."""
        return f"{self.archive}.>"

    @property
    def write(self) -> str:
        """The subjects of the target."""
        return f"replay.{self.archive}.>"


def free_names(workspace: Workspace) -> Names:
    """The first ones that no stream, no archive and no stream's subjects have. Raises OperatorError when there are
    none."""
    streams = set(stream_names(workspace.link))
    for number in range(1, _NUMBERS + 1):
        names = Names(number)
        if streams.isdisjoint({names.stream, names.target}) and workspace.catalog.archives.find(names.archive) is None:
            subjects = names.read, names.write
            if not any(streams_listening(workspace.link, subject) for subject in subjects):
                return names
    raise OperatorError(
        f"The names of all {_NUMBERS} demos are taken, or a stream captures the subjects of each",
        "Set NATS3_HOME to another folder: the demo then starts servers of its own there",
    )
