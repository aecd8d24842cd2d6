"""The lines and statements that a test reaches, by Python's own tracing."""

import sys
import threading
from types import FrameType
from typing import Any

from nats3_dagster.catalog.session import statements


class Reach:
    """What is reached of these files while it is entered, in every thread that starts meanwhile."""

    def __init__(self, files: dict[str, str]) -> None:
        # The module's name in the table, by its file.
        self._files = files
        self._lines: dict[str, set[int]] = {}
        self._statements: set[str] = set()
        self._text = statements._text

    def __enter__(self) -> "Reach":
        statements._text = self._noting_text
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
        statements._text = self._text

    def lines(self) -> dict[str, list[int]]:
        """The lines by module."""
        return {module: sorted(lines) for module, lines in self._lines.items()}

    def statements(self) -> list[str]:
        """The names of the statements that were run."""
        return sorted(self._statements)

    def _noting_text(self, statement: str) -> bytes:
        self._statements.add(statement)
        return self._text(statement)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        module = self._files.get(frame.f_code.co_filename)
        if module is None:
            return None
        lines = self._lines.setdefault(module, set())
        lines.add(frame.f_lineno)

        def trace(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return trace

        return trace
