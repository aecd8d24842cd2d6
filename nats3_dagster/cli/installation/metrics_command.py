"""`nats3 metrics`: what `/metrics` answers, without a server."""

from nats3_dagster.cli.terminal.output import print_text
from nats3_dagster.documents.metrics import Exposition
from nats3_dagster.replay.metrics_snapshot import measure
from nats3_dagster.settings import Settings
from nats3_dagster.workspace import Workspace


def metrics() -> None:
    """Print every metric in Prometheus' text format, as /metrics does. For the textfile collector of node_exporter;
    nats3_up says what is down."""
    settings = Settings.load()
    _ = settings.postgres  # an address that is not set is an error, and not a Postgres that is down
    with Workspace(settings) as workspace:
        print_text(Exposition(measure(workspace)).encode()[0].decode())
