"""Keys: assets of a stream and of an archive, checks of an archive, and the tag of a run that replays."""

from dagster import AssetCheckKey, AssetKey

# Checks of `<archive>/chunks`.
NO_GAPS, INTACT, KEEPS_UP = "no_gaps", "chunks_intact", "capture_keeps_up"
CHECKS = (NO_GAPS, INTACT, KEEPS_UP)
# Tags of a run: the id of its replay, and the newest attempt at it that began.
REPLAY_TAG, ATTEMPT_TAG = "nats3/replay", "nats3/attempt"
# Tag of a run: hours to capture before the first partition, joined by commas.
EARLIER_TAG = "nats3/earlier"


def stream_key(stream: str) -> AssetKey:
    return AssetKey(["jetstream", stream])


def chunks_key(archive: str) -> AssetKey:
    return AssetKey([archive, "chunks"])


def sealed_key(archive: str) -> AssetKey:
    return AssetKey([archive, "sealed"])


def replay_key(archive: str) -> AssetKey:
    return AssetKey([archive, "replay"])


def keys_of(archive: str) -> tuple[AssetKey, AssetKey, AssetKey]:
    """Of the archive's chunks, sealed hours and replays."""
    return chunks_key(archive), sealed_key(archive), replay_key(archive)


def check_key(archive: str, check: str) -> AssetCheckKey:
    return AssetCheckKey(chunks_key(archive), check)
