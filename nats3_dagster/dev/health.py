"""Health of the stack's servers that speak HTTP."""

from http.client import HTTPException

from nats3_dagster.direct_http import open_directly


def is_healthy(address: str) -> bool:
    """True if the server answers 200 within 5 s."""
    try:
        with open_directly(address, timeout_s=5) as answer:
            return answer.status == 200
    except (OSError, HTTPException):
        return False
