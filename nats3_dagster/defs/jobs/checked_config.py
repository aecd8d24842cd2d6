"""Run config that is checked before a run exists.

Dagster's types know numbers, texts and choices, and no ranges or rules between fields. It asks `post_process` of a type
wherever it reads run config with the definitions at hand: before the UI, a shell or a schedule creates a run, and when
the run begins. While a user types, the editor knows the types alone.
"""

from functools import cache
from typing import Any, Self

from dagster import Config, Shape

from nats3_dagster.defs.instance.internals import (
    DagsterUserCodeProcessError,
    PostProcessingError,
    SerializableErrorInfo,
)
from nats3_dagster.errors import OperatorError


class CheckedConfig(Config):
    """A config with rules of its own. An op takes it by `config_schema` (`schema_of`): Dagster makes of an annotation a
    type that has no rules."""

    def check(self) -> None:
        """Raises OperatorError if a value, or several together, are invalid."""


class _Refused(DagsterUserCodeProcessError, PostProcessingError):
    """Config that its class refuses. By the first class Dagster shows the sentence without its own frames."""

    def __init__(self, error: OperatorError) -> None:
        text = str(error)
        super().__init__(text, user_code_process_error_infos=[SerializableErrorInfo(text, [], "OperatorError")])


class _CheckedShape(Shape):
    """The fields of a config, and its rules."""

    # Shape keeps one instance for all with the same fields.
    def __new__(cls, config: type[CheckedConfig]) -> Self:
        made: Any = object.__new__(cls)
        made._initialized = False
        return made

    def __init__(self, config: type[CheckedConfig]) -> None:
        plain: Any = config.to_config_schema().as_field().config_type
        super().__init__(plain.fields)
        self._config = config

    def post_process(self, value: Any) -> Any:
        try:
            self._config(**value).check()
        except OperatorError as error:
            raise _Refused(error) from None
        return value


@cache
def schema_of(config: type[CheckedConfig]) -> Shape:
    """The type of a config in Dagster, with its rules. There is one for all archives: Dagster needs 2 to 3 ms to make
    it."""
    return _CheckedShape(config)
