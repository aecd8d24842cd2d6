"""HTTP to the servers of this installation: Dagster's webserver, the monitoring port of NATS, the embedded stack.

Invariant: no proxy of the environment is asked. These servers are on this machine or in its network: a proxy would not
reach them, and would read what they are sent.
"""

import urllib.request
from http.client import HTTPResponse
from typing import cast


def open_directly(request: str | urllib.request.Request, timeout_s: float) -> HTTPResponse:
    """Sends the request; the answer is to be closed. Raises OSError, ValueError or HTTPException, and ValueError for an
    address without http:// or https://."""
    address = request if isinstance(request, str) else request.full_url
    if not address.startswith(("http://", "https://")):
        raise ValueError("not an http:// or https:// address")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    return cast("HTTPResponse", opener.open(request, timeout=timeout_s))
