"""Where a login goes unencrypted to another host, by what is set."""

from typing import Any

import pytest

from nats3_dagster.archive.health.settings_health import check_transport
from nats3_dagster.settings import Settings

ELSEWHERE = "192.0.2.1"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"nats_url": f"nats://u:p@{ELSEWHERE}:4222"}, "The NATS login may go to 192.0.2.1 unencrypted"),
        ({"nats_url": f"nats://{ELSEWHERE}", "nats_token": "t0ken"}, "The NATS login may go to 192.0.2.1 unencrypted"),
        ({"nats_url": f"tls://u:p@{ELSEWHERE}"}, None),
        ({"nats_url": f"nats://u:p@{ELSEWHERE}", "nats_tls_first": True}, None),
        ({"nats_url": f"nats://{ELSEWHERE}", "nats_creds": "/x.creds"}, None),  # a seed does not travel
        ({"nats_url": f"nats://{ELSEWHERE}"}, None),
        ({"nats_url": "nats://u:p@127.0.0.1,nats://u:p@[::1],nats://u:p@localhost"}, None),
        ({"postgres_url": f"postgresql://u:p@{ELSEWHERE}/d"}, "Postgres at 192.0.2.1 may be unencrypted"),
        ({"postgres_url": f"host={ELSEWHERE} password=p sslmode=allow"}, "Postgres at 192.0.2.1 may be unencrypted"),
        ({"postgres_url": f"postgresql://u:p@{ELSEWHERE}/d?sslmode=verify-full"}, None),
        ({"postgres_url": "postgresql://u:p@/d"}, None),
        ({"postgres_url": "host=/run/postgresql password=p"}, None),
        ({"postgres_url": f"postgresql://u@{ELSEWHERE}/d"}, None),
        ({"server_url": f"http://{ELSEWHERE}:8080", "server_token": "t0ken"}, "The token of the API goes to 192.0.2.1"),
        ({"server_url": f"https://{ELSEWHERE}", "server_token": "t0ken"}, None),
        ({"server_url": f"http://{ELSEWHERE}"}, None),
        ({"s3_endpoint": f"http://{ELSEWHERE}", "s3_session_token": "t0ken"}, "The S3 session token goes to 192.0.2.1"),
        ({"s3_endpoint": f"http://{ELSEWHERE}"}, None),
    ],
)
def test_a_login_in_clear_to_another_host_is_a_warning(settings: dict[str, Any], said: str | None) -> None:
    report = list(check_transport(Settings(**settings)))
    assert [finding.status for finding in report] == ["warn"] * (said is not None)
    assert said is None or said in report[0].what
