"""Compares what brokers hand out with the checksum that was stored with it."""

from collections.abc import Sequence

from epochmq.base.errors import PeerError
from epochmq.model.crc import crc32
from epochmq.model.message import StoredMessage


class CorruptMessage(PeerError):
    """A broker handed out a message whose body does not have its checksum; it is not delivered."""

    def __init__(self, message: StoredMessage, broker_name: str, broker_id: int) -> None:
        super().__init__(
            f"message {message.queue_offset} of {message.topic}, queue {message.queue_id} of"
            f" {broker_name} (replica {broker_id}), is damaged: its body does not have its checksum"
            f" {message.body_crc}; see whether another replica has it (epochmq cluster show)"
        )
        self.message = message
        self.broker_id = broker_id


def is_sound(stored: StoredMessage) -> bool:
    """Whether the body, as it is stored (compressed perhaps), has its checksum."""
    return crc32(stored.body) == stored.body_crc


def sound_front(stored: Sequence[StoredMessage]) -> Sequence[StoredMessage]:
    """The records before the first damaged one; all of them, mostly."""
    for at, record in enumerate(stored):
        if not is_sound(record):
            return stored[:at]
    return stored
