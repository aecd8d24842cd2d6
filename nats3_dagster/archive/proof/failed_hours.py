"""Hours of an archive that failed while others went on."""

from nats3_dagster.errors import Nats3Error

# Hours that the error names.
_SHOWN = 5


class FailedHours:
    """Collects hours that failed, each with its error. `done`: what was to be done with them, as `sealed`."""

    def __init__(self, archive_name: str, done: str) -> None:
        self._archive_name, self._done = archive_name, done
        self.errors: list[tuple[str, Nats3Error]] = []

    def add(self, hour: str, error: Nats3Error) -> None:
        self.errors.append((hour, error))

    def raise_first(self) -> None:
        """Raises the first error, with each hour that failed; returns if none did."""
        if not self.errors:
            return
        hour, first = self.errors[0]
        if len(self.errors) == 1:
            what = f"Hour {hour} of archive {self._archive_name} was not {self._done}: {first.what}"
        else:
            hours = ", ".join(hour for hour, _ in self.errors[:_SHOWN])
            more = " and more" if len(self.errors) > _SHOWN else ""
            what = (
                f"{len(self.errors)} hours of archive {self._archive_name} were not {self._done}: {hours}{more}. "
                f"The first: {first.what}"
            )
        raise type(first)(what, first.hint)
