"""Health of the stack's servers that speak HTTP."""

import urllib.request
from http.client import HTTPException


def is_healthy(address: str) -> bool:
    """True if the server answers 200 within 5 s. It runs on this machine: a proxy of the environment is not for it."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(address, timeout=5) as answer:
            return answer.status == 200
    except (OSError, HTTPException):
        return False
