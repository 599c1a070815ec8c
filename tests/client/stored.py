"""Messages as a client decodes them, for tests without a broker."""

from epochmq.model.message import StoredMessage

HOST = ("127.0.0.1", 10911)


def stored(body: bytes = b"x", queue_offset: int = 0, topic: str = "T") -> StoredMessage:
    """Return a message."""
    return StoredMessage(topic, 0, queue_offset, 0, 0, body, 0, 0, 0, HOST, 0, HOST, 0, 0, {}, 0)
