"""A decoder of one's own: `--decode order_decoder:decode --key decoder`."""

import json
from typing import Any


def decode(subject: str, headers: dict[str, str], data: bytes) -> tuple[str, dict[str, Any]] | None:
    """A row for the region that the order's header names; None drops a test order."""
    order = json.loads(data)
    if order.get("test"):
        return None
    return headers.get("Region", "none"), {"order": order["order"], "store": subject.split(".")[1]}
