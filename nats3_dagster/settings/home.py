"""The folder of the embedded stack, and the settings that the stack wrote there when it started."""

import json
import os
from pathlib import Path
from typing import Any

from nats3_dagster.errors import OperatorError
from nats3_dagster.plausible import FOLDER, check


def home() -> Path:
    """The folder of the embedded stack: `NATS3_HOME`, else `.nats3` in the working directory. Raises OperatorError for
    a value that is no path."""
    return Path(check("NATS3_HOME", os.environ.get("NATS3_HOME", ".nats3"), FOLDER)).absolute()


def stack_settings() -> dict[str, Any]:
    """Returns the contents of `stack.json`, by key; empty if there is no stack. Raises OperatorError for a file that is
    no JSON."""
    path = home() / "stack.json"
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise OperatorError(f"{path} cannot be read: {reason}", "Correct or remove it") from None
    return values if isinstance(values, dict) else {}
