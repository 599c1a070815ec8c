"""Prepares a user's message for sending: checks, properties, id, compression, flags."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from epochmq.base.errors import UsageError
from epochmq.base.limits import MESSAGE_BYTES_MAX, PROPERTIES_BYTES_MAX
from epochmq.model import batch as batches
from epochmq.model import property_names as names
from epochmq.model.compression import Compressor, compressor
from epochmq.model.group import RETRIES_UNLIMITED
from epochmq.model.message import Message
from epochmq.model.names import check_topic, is_retry_topic
from epochmq.model.properties import encode

# Arguments -----------------------------------------------------------------------------------
# Checks of arguments, so that an error names the argument that has a wrong type.


def check_text(field: str, value: object, hint: str = "") -> None:
    """Raise `UsageError` unless `value` is a str; the error names `field`."""
    if not isinstance(value, str):
        raise UsageError(f"{field} must be text, not {kind_of(value)}{hint}")


def check_kind(field: str, value: object, kinds: tuple[type, ...], wanted: str) -> None:
    """Raise `UsageError` unless `value` is one of `kinds`; the error names `field` and `wanted`."""
    if not isinstance(value, kinds):
        raise UsageError(f"{field} must be {wanted}, not {kind_of(value)}")


def check_callable(field: str, value: object, hint: str = "") -> None:
    """Raise `UsageError` unless `value` can be called; the error names `field`."""
    if not callable(value):
        raise UsageError(f"{field} must be a function, not {kind_of(value)}{hint}")


def kind_of(value: object) -> str:
    """Return the type and the beginning of `value`, for an error message."""
    return "None" if value is None else f"{type(value).__name__} {value!r:.60}"


# Outgoing ------------------------------------------------------------------------------------


COMPRESS_OVER_BYTES = 4_096
_NEVER = 1 << 30
ZLIB = compressor("zlib")


@dataclass(slots=True)
class Outgoing:
    """A message that is ready to be sent; its id is the same in all tries."""

    topic: str
    body: bytes
    properties: str
    flag: int
    sys_flag: int
    uniq_id: str
    reconsume_times: int = 0
    max_reconsume_times: int | None = None


def prepare(
    message: Message,
    uniq_id: str,
    *,
    compress_over_bytes: int = COMPRESS_OVER_BYTES,
    compression: Compressor = ZLIB,
) -> Outgoing:
    """Check `message` and prepare it for sending.

    Args:
        message: the message.
        uniq_id: the id, unless the message has one.
        compress_over_bytes: bodies of this many bytes or more are compressed, if that makes them
            smaller.
        compression: compresses them.

    Raises:
        UsageError: every broker would refuse the message.
        Refused: the topic is not a valid name (1).
    """
    try:
        check(message)
        properties = properties_of(message, uniq_id)
        text = encode(properties)
    except (TypeError, AttributeError):
        _check_types(message)
        raise
    if len(text.encode()) > PROPERTIES_BYTES_MAX:
        raise UsageError(f"properties are over {PROPERTIES_BYTES_MAX} bytes; move data to the body")
    body, flags = _compressed(message.body, compress_over_bytes, compression)
    outgoing = Outgoing(message.topic, body, text, message.flag, flags, properties[names.UNIQ_KEY])
    if is_retry_topic(message.topic):  # a new message: brokers must not make it a dead letter
        outgoing.max_reconsume_times = RETRIES_UNLIMITED
    return outgoing


def prepare_batch(messages: Sequence[Message], next_id: Callable[[], str]) -> Outgoing:
    """Prepare messages for one request; a batch is never compressed.

    Args:
        messages: one or more messages of one topic; each that has no id (UNIQ_KEY) gets one. The
            application's objects stay as they are.
        next_id: returns an id that no message has.

    Raises:
        UsageError: they cannot be one batch, or every broker would refuse one of them.
    """
    if not messages or len({message.topic for message in messages}) != 1:
        raise UsageError("a batch holds one or more messages of one topic")
    if is_retry_topic(messages[0].topic) or any(m.is_delayed for m in messages):
        raise UsageError("messages of a batch can be neither delayed nor retried; send them singly")
    ids = [message.properties.get(names.UNIQ_KEY) or next_id() for message in messages]
    whole = Message(messages[0].topic, batches.encode(messages, ids))
    outgoing = prepare(whole, next_id(), compress_over_bytes=_NEVER)
    outgoing.uniq_id = ",".join(ids)
    # Brokers add the properties of the batch to every message in it. An id among them would replace
    # the id of each message.
    outgoing.properties = encode(whole.all_properties())
    return outgoing


def body_bytes(message: object) -> int:
    """Return the size of the body in bytes. Raises `UsageError` if it is not a message or
    has no body.
    """
    if not isinstance(message, Message):
        raise UsageError(f"a Message is sent, not {kind_of(message)}")
    body: object = message.body
    if not isinstance(body, bytes | bytearray | memoryview):
        hint = "; encode text, as text.encode()" if isinstance(body, str) else ""
        raise UsageError(f"body must be bytes, not {kind_of(body)}{hint}")
    return len(body)


def check(message: Message) -> None:
    """Raise `UsageError` if a field cannot be sent, or `Refused` (1) for an invalid topic name."""
    size = body_bytes(message)
    check_text("topic", message.topic)
    check_topic(message.topic)
    if size > MESSAGE_BYTES_MAX:
        raise UsageError(
            f"the body has {size} bytes, over the limit of {MESSAGE_BYTES_MAX}; "
            "split it or store it elsewhere and send a reference"
        )
    flag: object = message.flag
    delay_ms: object = message.delay_ms
    if not isinstance(flag, int) or not isinstance(delay_ms, int):
        _check_types(message)  # other wrong types raise TypeError later; `prepare` names them then
    try:
        for name, value in message.properties.items():
            if "\x01" in name + value or "\x02" in name + value:
                raise UsageError(
                    f"property {name!r} holds a control character that separates properties"
                )
    except (TypeError, AttributeError):
        _check_types(message)
        raise


def _check_types(message: Message) -> None:
    """Raise `UsageError` that names the first field with a wrong type."""
    if message.tags is not None:
        check_text("tags", message.tags)
    check_kind("keys", message.keys, (tuple, list, set, frozenset), "a tuple of texts")
    for key in message.keys:
        check_text("each of keys", key)
    check_kind("properties", message.properties, (dict,), "a dict")
    for name, value in message.properties.items():
        check_text("the name of a property", name)
        check_text(f"property {name!r}", value, "; convert it with str()")
    for field, number in (
        ("flag", message.flag),
        ("delay_level", message.delay_level),
        ("delay_ms", message.delay_ms),
        ("deliver_at_ms", message.deliver_at_ms),
    ):
        check_kind(field, number, (int,), "a whole number")


def properties_of(message: Message, uniq_id: str) -> dict[str, str]:
    """Return all properties of `message`, with tag, keys, delay level and id."""
    properties = message.all_properties()
    properties.setdefault(names.UNIQ_KEY, uniq_id)
    return properties


def _compressed(body: bytes, over_bytes: int, compression: Compressor) -> tuple[bytes, int]:
    if len(body) < over_bytes:
        return body, 0
    packed = compression.compress(body)
    if len(packed) >= len(body):
        return body, 0
    return packed, compression.sys_flag
