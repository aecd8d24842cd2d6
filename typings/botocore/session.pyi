# boto3 ships no types; without this every value of it counts as unknown rather than as Any.
from typing import Any

def __getattr__(name: str) -> Any: ...
