"""Properties of a message in a send: parsed once, and completed with the broker's properties.

The code works on the text of the request. Only the few messages whose text must be changed in the
middle are parsed into a dict. One pass costs about 0.3 us, a dict would cost twice that.
"""

from collections.abc import Callable

import msgspec

from epochmq.model import property_names as names
from epochmq.model.properties import NAME_END, PAIR_END, decode, encode, encode_loosely
from epochmq.model.property_names import KEYS_SEPARATOR
from epochmq.model.sink_mark import ESCAPE_ID, SINK_ID
from epochmq.model.tags import tags_code

DLQ_DELAY = "-1"
"""DELAY property that RocketMQ writes when a plain send goes to the dead letter topic."""


class Parsed(msgspec.Struct, gc=False):
    """The parsed properties of a message; `text` is the text that is stored."""

    text: str
    uniq_key: str = ""
    keys: tuple[str, ...] = ()
    tag_code: int = 0
    wait: bool = True
    special: bool = False
    """Whether one of the fields below is set: the message does not go to its topic directly."""
    delay: int = 0
    """The requested delay level; 0 for none."""
    timer: bool = False
    """Whether the message requests a delivery time instead of a delay level."""
    transactional: bool = False
    inner: bool = False
    """Whether the message says that it holds several messages (INNER_NUM)."""
    flags: int = 0
    """What `read` returned."""
    is_delayed: bool = False
    """Whether there is a delay level or a time of delivery, of any value."""
    escape_id: str = ""
    """The id that another broker gave the message when forwarding it (ESCAPE_ID); never stored."""


NOTHING_SPECIAL = Parsed("")

_TIMER_REQUESTS = frozenset({names.TIMER_DELAY_SEC, names.TIMER_DELAY_MS, names.TIMER_DELIVER_MS})
_RARE = frozenset(
    {
        names.DELAY,
        names.TRAN_MSG,
        names.MSG_REGION,
        names.TRACE_ON,
        names.CLUSTER,
        names.POP_CK,
        names.INNER_NUM,
        *_TIMER_REQUESTS,
    }
)
RARE, MARKED, SHARDED, LATER = 1, 2, 4, 8
"""Flags that `read` returns: some properties need more work; a sink marked the message; it has a
sharding key; it has `START_DELIVER_TIME`.
"""
NORMAL, FIFO, DELAY, TRANSACTION = range(4)
"""Types of messages in the metrics, as in `native.h`; `broker_stats.MESSAGE_TYPES` names them."""
_UNIQ_KEY, _TAGS, _KEYS, _WAIT = names.UNIQ_KEY, names.TAGS, names.KEYS, names.WAIT


class Completer:
    """Adds MSG_REGION, TRACE_ON and CLUSTER to properties, and UNIQ_KEY when it is missing."""

    def __init__(
        self, region: str, trace_on: bool, cluster: str, draw_uniq_key: Callable[[], str]
    ) -> None:
        self._own = {
            names.MSG_REGION: region,
            names.TRACE_ON: "true" if trace_on else "false",
            names.CLUSTER: cluster,
        }
        self.tail = PAIR_END + encode(self._own)
        """Text appended to properties that need no other change; begins with 0x02."""
        self._draw_uniq_key = draw_uniq_key

    def complete(self, text: str | None, *, draw: bool = True) -> Parsed:
        """Parse the properties `text` and complete them; accepts any text.

        With `draw` a missing UNIQ_KEY is generated.
        """
        uniq_key, keys, tag_code, wait, more = read(text or "")
        parsed = Parsed(text or "", uniq_key, keys, tag_code, wait, flags=more)
        if more & RARE:
            self._rebuild(parsed)
        else:
            parsed.text = join(parsed.text, self.tail)
        if draw and not parsed.uniq_key:
            parsed.uniq_key = self._draw_uniq_key()
            parsed.text = put_last(parsed.text, _UNIQ_KEY, parsed.uniq_key)
        return parsed

    def _rebuild(self, parsed: Parsed) -> None:
        props = decode(parsed.text)
        plain = props.pop(names.POP_CK, None) is None and self._own.keys().isdisjoint(props)
        parsed.escape_id = props.pop(ESCAPE_ID, "")
        if parsed.escape_id:
            plain = False
        parsed.transactional = props.get(names.TRAN_MSG, "").lower() == "true"
        parsed.delay = to_number(props.get(names.DELAY, ""))
        parsed.timer = not _TIMER_REQUESTS.isdisjoint(props)
        parsed.is_delayed = parsed.timer or names.DELAY in props
        if parsed.delay > 0 and parsed.timer:
            parsed.timer = plain = False
            for name in _TIMER_REQUESTS:
                props.pop(name, None)
        parsed.inner = names.INNER_NUM in props
        parsed.special = parsed.delay > 0 or parsed.timer or parsed.transactional or parsed.inner
        if plain:
            parsed.text = join(parsed.text, self.tail)
        else:
            props.update(self._own)
            parsed.text = encode_loosely(props)


_known: dict[str, int] = {f"{_WAIT}{NAME_END}true": 0}
"""Whole name-value pairs that are frequent, with their tags code (0: nothing to do)."""

_KNOWN_MAX = 8192
_KNOWN_LENGTH_MAX = 256


def read(text: str) -> tuple[str, tuple[str, ...], int, bool, int]:
    """Parse properties into (UNIQ_KEY, other keys, tags code, WAIT, flags)."""
    uniq_key = ""
    keys: tuple[str, ...] = ()
    tag_code = 0
    wait = True
    more = 0
    known = _known.get
    for pair in text.split(PAIR_END):
        code = known(pair)
        if code is not None:
            tag_code = code or tag_code
            continue
        name, _, value = pair.partition(NAME_END)
        if not value:
            continue
        if name == _UNIQ_KEY:
            uniq_key = value
        elif name == _KEYS:
            keys = split_keys(value)
        elif name == _TAGS:
            tag_code = _remember(pair, tags_code(value))
        elif name == _WAIT:
            wait = value.lower() == "true"
        elif name in _RARE:
            more |= RARE
        elif name == SINK_ID:
            more |= MARKED
        elif name == names.SHARDING_KEY:
            more |= SHARDED
        elif name == names.START_DELIVER_TIME:
            more |= LATER
    return uniq_key, keys, tag_code, wait, more


def message_type(flags: int, parsed: Parsed) -> int:
    """Return the type of a message in the metrics, in RocketMQ's order.

    `flags` is what `read` returned; `parsed` is `NOTHING_SPECIAL` unless they have `RARE`.
    """
    if parsed.transactional:
        return TRANSACTION
    if flags & SHARDED:
        return FIFO
    return DELAY if parsed.is_delayed or flags & LATER else NORMAL


def split_keys(text: str) -> tuple[str, ...]:
    """Split a KEYS property into keys at blanks, not at other white space (INV-17)."""
    return tuple([key for key in text.split(KEYS_SEPARATOR) if key])


def _remember(pair: str, code: int) -> int:
    """Cache the tags code of a pair; bounded, so that many different tags cost no memory."""
    if code and len(pair) <= _KNOWN_LENGTH_MAX:
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        _known[pair] = code
    return code


def to_number(text: str) -> int:
    """Parse a decimal number of at most 9 digits; 0 for any other text."""
    return int(text) if len(text) < 10 and text.isascii() and text.isdecimal() else 0


class BatchTail:
    """The properties of a batch, which are appended to those of each of its messages.

    A message never gets a second UNIQ_KEY. In RocketMQ's brokers the key of the batch hides that of
    each message, so that queries by unique key and the clients' message ids all find the batch.
    """

    def __init__(self, common: Parsed) -> None:
        self.uniq_key = common.uniq_key
        self.whole = (PAIR_END + common.text).encode()
        rest = decode(common.text)
        rest.pop(_UNIQ_KEY, None)
        self.without_key = (PAIR_END + encode_loosely(rest)).encode()
        self.tags = rest.get(_TAGS)
        self.keys = rest.get(_KEYS)
        """TAGS and KEYS of the batch, which replace those of its messages: the last pair counts."""

    def complete(self, raw: bytes) -> tuple[bytes, tuple[str, ...], int]:
        """Return (properties to store, index keys, tags code) for the properties of one message."""
        text = raw.decode("utf-8", "replace")
        if not raw.isascii():
            raw = text.encode()
        uniq_key, keys, tag_code, _, _ = read(text)
        tail = self.without_key if uniq_key else self.whole
        uniq_key = uniq_key or self.uniq_key
        if self.tags:
            tag_code = tags_code(self.tags)
        if self.keys:
            keys = split_keys(self.keys)
        if uniq_key:
            keys = (uniq_key, *keys) if keys else (uniq_key,)
        if not text or text[-1] == PAIR_END:
            return raw + tail[1:], keys, tag_code
        return raw + tail, keys, tag_code


def join(text: str, tail: str) -> str:
    """Append `tail`, which begins with 0x02, to `text`.

    Clients of 5.2 and newer end the text with 0x02; there is then only one.
    """
    if not text or text[-1] == PAIR_END:
        return text + tail[1:]
    return text + tail


def put_last(text: str, name: str, value: str) -> str:
    """Append one pair to `text`; `text` must not have this name yet."""
    return join(text, f"{PAIR_END}{name}{NAME_END}{value}")


def put(text: str, changes: dict[str, str]) -> str:
    """Replace or add pairs in `text`."""
    return encode_loosely({**decode(text), **changes})
