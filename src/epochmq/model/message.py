"""Messages: those that users send, and those that are stored."""

from dataclasses import dataclass, field

import msgspec

from epochmq.base import limits
from epochmq.model import property_names as names
from epochmq.model.compression import inflate
from epochmq.model.host import pack
from epochmq.model.message_id import offset_id


@dataclass(slots=True)
class Message:
    """A message to send.

    Attributes:
        topic: name of the topic.
        body: content in bytes.
        tags: one tag for filters, or None.
        keys: index keys without spaces; a single text counts as one key.
        properties: user properties.
        flag: a number for the application.
        delay_level: delay level from 1 up; 0 means none. It wins over the exact times below.
        wait_stored: whether the broker answers only when the message is stored as safely as
            configured.
        delay_ms: exact delay in milliseconds; 0 means none. It wins over `deliver_at_ms`.
        deliver_at_ms: exact delivery time, Unix milliseconds; 0 means none.
    """

    topic: str
    body: bytes
    tags: str | None = None
    keys: tuple[str, ...] = ()
    properties: dict[str, str] = field(default_factory=dict)
    flag: int = 0
    delay_level: int = 0
    wait_stored: bool = True
    delay_ms: int = 0
    deliver_at_ms: int = 0

    def __post_init__(self) -> None:
        given: object = self.keys
        if isinstance(given, str):
            self.keys = (given,)

    @property
    def is_delayed(self) -> bool:
        """Whether delivery is delayed; a batch must not contain such a message."""
        return self.delay_level > 0 or self.delay_ms > 0 or self.deliver_at_ms > 0

    def all_properties(self) -> dict[str, str]:
        """Return `properties` with those of the fields; a field that is set wins."""
        props = dict(self.properties)
        if self.keys:
            props[names.KEYS] = names.KEYS_SEPARATOR.join(self.keys)
        if self.tags:
            props[names.TAGS] = self.tags
        if self.delay_level > 0:
            props[names.DELAY] = str(self.delay_level)
        elif self.delay_ms > 0:
            props[names.TIMER_DELAY_MS] = str(self.delay_ms)
        elif self.deliver_at_ms > 0:
            props[names.TIMER_DELIVER_MS] = str(self.deliver_at_ms)
        props.setdefault(names.WAIT, "true" if self.wait_stored else "false")
        return props


class StoredMessage(msgspec.Struct):
    """A message as it is stored.

    `offset` and `size` are bytes in the commit log, `queue_offset` is an index in the queue. `body`
    may be compressed; `plain_body()` inflates it.
    """

    topic: str
    queue_id: int
    queue_offset: int
    offset: int
    size: int
    body: bytes
    flag: int
    sys_flag: int
    born_wall_ms: int
    born_host: tuple[str, int]
    store_wall_ms: int
    store_host: tuple[str, int]
    reconsume_times: int
    prepared_offset: int
    properties: dict[str, str]
    body_crc: int

    @property
    def tags(self) -> str | None:
        """The tag of the message, or None."""
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        """The index keys of the message."""
        return tuple(self.properties.get(names.KEYS, "").split())

    @property
    def uniq_key(self) -> str | None:
        """The id that the producing client gave (UNIQ_KEY)."""
        return self.properties.get(names.UNIQ_KEY)

    @property
    def offset_msg_id(self) -> str:
        """The id made of the broker's address and the commit log offset."""
        return offset_id(pack(*self.store_host), self.offset)

    @property
    def msg_id(self) -> str:
        """The id that users see: the client's id, or the offset id if there is none."""
        return self.uniq_key or self.offset_msg_id

    def plain_body(self, limit: int = limits.FRAME_BYTES_MAX) -> bytes:
        """Return the inflated body.

        Raises:
            BadBody: the body is damaged or exceeds `limit` bytes.
            CodecMissing: the library of its codec is not installed.
        """
        return inflate(self.body, self.sys_flag, limit)
