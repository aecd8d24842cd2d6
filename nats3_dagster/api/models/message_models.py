"""Answers about messages."""

from pydantic import Field

from nats3_dagster.api.models.bodies import Answer


class Message(Answer):
    """One archived message."""

    seq: int = Field(description="Its sequence in the stream.")
    time: str = Field(description="Its store time.", examples=["2026-11-21T07:00:00.000000000Z"])
    subject: str = Field(description="The subject; of one that is not UTF-8 its text.")
    subject_bytes: str | None = Field(description="The bytes of such a subject in base64; null for all others.")
    stream: str
    incarnation: str = Field(
        description="The life of the stream: sequences begin again with each.", examples=["20261121T075644123456789Z"]
    )
    headers: str | None = Field(description="The header block as on the wire, in base64; null for none.")
    data: str = Field(description="The payload in base64.")


class RemovedMessages(Answer):
    """Messages of a selection that were taken out of the archive on purpose."""

    replay_id: str | None = Field(description="The replay that published them before; null where none did.")
    messages: int = Field(description="How many, at most where it is not exact.")
    is_exact: bool


class MessagePage(Answer):
    """Messages in the order of the stream."""

    messages: list[Message]
    next: str | None = Field(description="The cursor of the next page; null behind the last message that is archived.")
    cursor: str = Field(description="The cursor behind this page: also for what is archived later.")
    removed: list[RemovedMessages] = Field(
        description="What the whole selection had besides, before chunks were deleted after a replay."
    )


class MessageReference(Answer):
    """Where a message is in the store. Who has the URL may read the whole object until it expires."""

    seq: int
    stream: str
    incarnation: str
    url: str = Field(description="A presigned GET of the object; a file's URL where the store is a folder.")
    expires_at: str | None = Field(description="When the URL ends; null for a file's.")
    note: str = Field(description="What else must be known of the URL; may be empty.")
    bucket: str
    key: str
    size: int = Field(description="Bytes of the object.")
    sha256: str
    row_group: int = Field(description="Index of the row group that has the message.")
    first_seq: int = Field(description="Of the row group.")
    last_seq: int = Field(description="Of the row group.")
    row: int = Field(description="The row in the row group, from 0.")
    range: list[int] = Field(description="First and last byte of the row group in the object.")
    footer_range: list[int] = Field(description="First and last byte of the footer in the object.")
    how: str = Field(description="How to read the message, in words.")
    python: str = Field(description="A program that prints it; it needs pyarrow only.")
