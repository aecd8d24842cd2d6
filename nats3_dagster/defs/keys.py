"""Keys: assets of a stream and of an archive, checks of an archive, and the tag of a run that replays."""

from dagster import AssetCheckKey, AssetKey

# Checks of `<archive>/chunks`.
NO_GAPS, INTACT, KEEPS_UP = "no_gaps", "chunks_intact", "capture_keeps_up"
# Tag of a run: the id of its replay.
REPLAY_TAG = "nats3/replay"


def stream_key(stream: str) -> AssetKey:
    return AssetKey(["jetstream", stream])


def chunks_key(archive: str) -> AssetKey:
    return AssetKey([archive, "chunks"])


def sealed_key(archive: str) -> AssetKey:
    return AssetKey([archive, "sealed"])


def replay_key(archive: str) -> AssetKey:
    return AssetKey([archive, "replay"])


def check_key(archive: str, check: str) -> AssetCheckKey:
    return AssetCheckKey(chunks_key(archive), check)
