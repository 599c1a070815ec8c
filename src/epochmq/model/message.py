"""Messages: what users build, and what comes back out of a log."""

from dataclasses import dataclass, field

import msgspec

from epochmq.base import limits
from epochmq.model import property_names as names
from epochmq.model.compression import inflate
from epochmq.model.host import pack
from epochmq.model.message_id import offset_id


@dataclass(slots=True)
class Message:
    """A message to send. `keys` are index keys without spaces; `delay_level` 0 means at once.

    A single text given as `keys` is one key.

    Instead of a level `delay_ms` asks for an exact delay, or `deliver_at_ms` for a time (Unix ms);
    of several the level counts, then the delay.
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
        """Whether it waits at the broker; no batch may hold such a message."""
        return self.delay_level > 0 or self.delay_ms > 0 or self.deliver_at_ms > 0

    def all_properties(self) -> dict[str, str]:
        """`properties` with those that fields stand for; the fields win where they are set."""
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
    """A message as a log holds it; `offset` and `size` are bytes, `queue_offset` an index.

    `body` is as stored, maybe compressed: read `plain_body()`.
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
        return self.properties.get(names.TAGS)

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.properties.get(names.KEYS, "").split())

    @property
    def uniq_key(self) -> str | None:
        """The id the producing client gave."""
        return self.properties.get(names.UNIQ_KEY)

    @property
    def offset_msg_id(self) -> str:
        """The id that says where it is stored."""
        return offset_id(pack(*self.store_host), self.offset)

    @property
    def msg_id(self) -> str:
        """What users are shown: the client's id, else the offset id."""
        return self.uniq_key or self.offset_msg_id

    def plain_body(self, limit: int = limits.FRAME_BYTES_MAX) -> bytes:
        """The body inflated to at most `limit` bytes; BadBody or CodecMissing when it cannot be."""
        return inflate(self.body, self.sys_flag, limit)
