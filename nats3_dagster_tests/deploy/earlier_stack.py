"""The installation of an earlier release (support/earlier.py) in the volumes of a stack that has not started yet."""

from pathlib import Path

from nats3_dagster_tests.deploy.stack import Stack
from nats3_dagster_tests.support import earlier

_PSQL = """export PGPASSWORD=$(cat /run/secrets/postgres_password)
exec psql -h 127.0.0.1 -U nats3 -d nats3 -X -q -v ON_ERROR_STOP=1 "$@"
"""
# The fixture's store is a folder for each bucket.
_PUT = """
import boto3, pathlib
s3, root = boto3.client("s3"), pathlib.Path("/earlier/archive")
for file in root.rglob("*"):
    if file.is_file():
        s3.put_object(Bucket="archive", Key=str(file.relative_to(root)), Body=file.read_bytes())
"""


def load(stack: Stack, image: str, folder: Path) -> None:
    """Fill the volumes: the database, the bucket, the streams. `image` has Python with boto3; `folder` is empty."""
    earlier.unpack("nats.zip", folder / "nats")
    earlier.unpack("store.zip", folder / "store")
    run = ("run", "--rm", "--user", "0", "--entrypoint", "")
    volume = f"{stack.project}_nats"
    # As Compose labels its own: by this it finds what to remove with the stack.
    labels = {"io.podman.compose.project": stack.project, "com.docker.compose.project": stack.project}
    labels |= {"com.docker.compose.volume": "nats"}
    words = [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]
    stack.engine("volume", "create", *words, volume)
    mounts = ("-v", f"{folder / 'nats'}:/earlier:ro", "-v", f"{volume}:/data")
    stack.engine(*run, *mounts, image, "cp", "-r", "/earlier/.", "/data")

    stack.compose("up", "--detach", "postgres", "s3")
    for name in ("postgres", "s3"):
        stack.await_health(name)
    stack.engine("cp", str(earlier.DATA / "postgres.sql"), f"{stack.container('postgres')}:/tmp/earlier.sql")
    psql(stack, "-f", "/tmp/earlier.sql")
    environment = {
        "AWS_ENDPOINT_URL_S3": "http://s3:8333",
        "AWS_REGION": "us-east-1",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "nats3",
        "AWS_SECRET_ACCESS_KEY": stack.secrets["s3_secret_key"],
    }
    given = [word for name, value in environment.items() for word in ("-e", f"{name}={value}")]
    network = ("--network", f"{stack.project}_default")
    store = ("-v", f"{folder / 'store'}:/earlier:ro")
    stack.engine(*run, *network, *store, *given, image, "python", "-c", _PUT)


def psql(stack: Stack, *words: str) -> str:
    """What psql prints in the container of Postgres."""
    return stack.exec("postgres", "sh", "-c", _PSQL, "sh", *words).strip()
