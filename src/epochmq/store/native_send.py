"""Single sends of one event-loop turn: decoded per read, completed as records at the log's end.

Besides ordinary messages these are messages that are stored elsewhere first: half messages, delayed
messages, messages for an exact time. Ends of transactions are only collected, for the code that
knows the open transactions.
"""

import ctypes
from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

import msgspec

from epochmq.base.limits import HEADER_BYTES_MAX
from epochmq.model import record
from epochmq.model.tags import java_hash
from epochmq.native.library import Library, SendArgs
from epochmq.native.memory import NativeMemory
from epochmq.native.native_index import KEY_BYTES, PackedKeys
from epochmq.store.draft import UNIT_BYTES, Draft

RECORDS_BYTES_MAX = 8 << 20
"""Limit of record bytes per turn; the rest is left to Python. Unused memory costs nothing."""

MESSAGES_MAX = 8192
KEYS_MAX = 2 * MESSAGES_MAX
SLOTS_MAX = 16_384
ANSWERS_BYTES_MAX = 8 << 20
_SINGLE = Struct("=q8i")
"""A record's place; its size, slot, queue id, opaque, tags code, key's place and size, read."""


_SLOT_FIELDS = 6
"""i64 next queue offset, delay, messages, where the units begin, messages sent to it wherever they
are stored, bytes of those: `slot` of send_turn.h."""
_SENT_FIELD = 4
_NO_SENT = memoryview(bytes(16)).cast("q")

SIZE_CLASSES = 7
"""Classes of the sizes of messages, as in `send_turn.h`; send.c has their bounds."""
_SEND_TOPICS_MAX = 1024

ENDINGS_MAX = 8192
ENDINGS_BYTES_MAX = 4 << 20
_ENDING = Struct("=qqi4xii24x")
"""Queue offset, position, how, where its header lies; texts that only the native code looks at."""

HALF, LEVELS, TIMED = range(3)
"""Kinds of messages that are stored elsewhere first, as in `send_turn.h`."""
_ENDS = 3
ANY_KIND = 1 << HALF | 1 << LEVELS | 1 << TIMED


class Ended(NamedTuple):
    """One one-way END_TRANSACTION request."""

    queue_offset: int
    offset: int
    how: int
    """`commitOrRollback`: a commit or a rollback."""
    header_at: int
    header_bytes: int
    """Size of the request's JSON in the texts of `StagedEnds`."""


class StagedEnds(NamedTuple):
    """The ends of one turn, in order; `endings` and `texts_at` are addresses in native memory."""

    ends: list[Ended]
    texts: bytes
    endings_at: int
    texts_at: int

    def header(self, end: Ended) -> bytes:
        """Return the request's JSON."""
        return self.texts[end.header_at : end.header_at + end.header_bytes]


class SendTexts(msgspec.Struct, frozen=True):
    """The parts of records and answers that depend on the broker's options."""

    tail: bytes
    """Appended to every message's properties; begins with 0x02."""
    middle: bytes
    """Part of an answer between the UNIQ_KEY and the opaque."""
    end: bytes
    """Part of an answer behind the opaque."""
    body_max: int
    record_max: int
    index: bool
    delay_max_ms: int = 0
    """Maximum delay of an exact time."""
    precision_ms: int = 1000
    """Slot width of exact times."""


class ReturnedMessage(msgspec.Struct, gc=False):
    """A message that is returned to Python: its draft without keys, and the data of its answer."""

    draft: Draft
    opaque: int
    uniq_key: str
    read: int
    queue_id: int
    """Queue id for the answer; the draft may have to wait in another queue."""


class SentSizes(NamedTuple):
    """The messages of one type that were sent to one topic, by the classes of their sizes."""

    topic: str
    message_type: int
    """0 to 3, as in `native.h`."""
    counts: list[int]
    """Number of messages of each class."""
    bytes: int
    """Bytes of their records."""


_TYPES = 4
_SIZE_FIELDS = SIZE_CLASSES + 1
_NO_SIZES = memoryview(bytes(8 * _SIZE_FIELDS)).cast("q")

MIRRORED = {
    "slot": 8 * _SLOT_FIELDS,
    "single": _SINGLE.size,
    "ending": _ENDING.size,
    "index_key": KEY_BYTES,
}
"""Structures that are also defined in C."""


class SendRun:
    """The messages of a turn, in order, not in the log yet; places are (topic, queue id)."""

    def __init__(self, library: Library, store_host: bytes, texts: SendTexts) -> None:
        library.check_sizes(MIRRORED)
        self._library = library
        self._send_turn = NativeMemory(library.send_turn_bytes())
        self._args = SendArgs.from_address(self._send_turn.address)
        self._at = ctypes.addressof(self._args)
        self._stage_sends = library.stage_sends
        self._rows: list[int] = []
        """Positions in `_slots` of the queues that `places` returned."""
        buffers = {
            name: NativeMemory(size)
            for name, size in (
                ("out", RECORDS_BYTES_MAX),
                ("singles", _SINGLE.size * MESSAGES_MAX),
                ("keys", KEY_BYTES * KEYS_MAX),
                ("units", UNIT_BYTES * MESSAGES_MAX),
                ("answers", ANSWERS_BYTES_MAX),
                ("slots", 8 * _SLOT_FIELDS * SLOTS_MAX),
                ("touched", 4 * SLOTS_MAX),
                ("counted", 4 * SLOTS_MAX),
                ("sizes", 8 * _SIZE_FIELDS * _TYPES * _SEND_TOPICS_MAX),
                ("ends", 8 * (MESSAGES_MAX + ENDINGS_MAX)),
                ("endings", _ENDING.size * ENDINGS_MAX),
                ("texts", ENDINGS_BYTES_MAX),
            )
        }
        self._views = {name: memory.view for name, memory in buffers.items()}
        self._slots = self._views["slots"].cast("q")
        self._touched = self._views["touched"].cast("i")
        self._counted = self._views["counted"].cast("i")
        self._sizes = self._views["sizes"].cast("q")
        self._ends = self._views["ends"].cast("q")
        self._places: list[tuple[str, int]] = []
        self._topics: list[str] = []
        for name, memory in buffers.items():
            setattr(self._args, name, memory.address)
        self._set(store_host, texts)

    def _set(self, store_host: bytes, texts: SendTexts) -> None:
        args = self._args
        for name, text in (
            ("tail", texts.tail),
            ("host", store_host),
            ("id", store_host.hex().upper().encode()),
            ("middle", texts.middle),
            ("end", texts.end),
        ):
            setattr(args, f"{name}_at", text)
            setattr(args, f"{name}_size", len(text))
        args.header_max, args.body_max = HEADER_BYTES_MAX, texts.body_max
        args.record_max = texts.record_max
        args.out_max, args.answers_max = RECORDS_BYTES_MAX, ANSWERS_BYTES_MAX
        args.singles_max, args.keys_max = MESSAGES_MAX, KEYS_MAX if texts.index else 0
        args.slots_max = SLOTS_MAX
        args.endings_max, args.texts_max = ENDINGS_MAX, ENDINGS_BYTES_MAX
        args.delay_max, args.precision = texts.delay_max_ms, texts.precision_ms

    @property
    def send_turn_address(self) -> int:
        """Address of the native structure."""
        return self._at

    # Topics ----------------------------------------------------------------------------------

    def add_topic(
        self, topic: str, queues: int, sys_flag: int, kinds: int = ANY_KIND, special: int = -1
    ) -> bool:
        """Accept sends to `topic` from now on; return whether there is room for it.

        `kinds`: bits of the allowed kinds of messages. `special`: clients do not send to the topic;
        it stores messages of that kind.
        """
        name = topic.encode()
        prefix = java_hash(topic + "#") & 0xFFFFFFFF
        first = self._library.send_topic_add(
            self._at, name, len(name), queues, sys_flag, prefix, special, kinds
        )
        if first >= 0:
            self._topics.append(topic)
            del self._places[first:]
            self._places += [(topic, queue_id) for queue_id in range(queues)]
        return bool(first >= 0)

    def forget_topics(self) -> None:
        """Accept no topic until topics are added again; nothing may be staged.

        Call `pop_sent` and `pop_message_sizes` before.
        """
        self._library.send_topics_clear(self._at)
        self._places.clear()
        self._topics.clear()

    # A turn ----------------------------------------------------------------------------------

    def allow(self, kinds: int, wall: int, *, ends: bool) -> None:
        """Set which special messages are accepted now, and whether transaction ends are
        collected.

        `wall`: the wall time in ms from which the relative delays of the next sends count.
        """
        args = self._args
        args.allowed = kinds | ends << _ENDS
        args.wall = wall

    def stage_raw(
        self, address: int, size: int, born_host: bytes, checks: int | None = None
    ) -> int:
        """Stage the leading sends in `size` bytes at `address`; return how many bytes they used.

        `checks`: the address of what checks their signatures (`auth/native_signatures.py`); None to
        check nothing.
        """
        taken: int = self._stage_sends(self._at, address, size, born_host, checks)
        return taken

    @property
    def count(self) -> int:
        """Number of staged messages."""
        return int(self._args.count)

    @property
    def size(self) -> int:
        """Bytes of the staged records."""
        return int(self._args.out_size)

    def places(self) -> list[tuple[str, int]]:
        """Return the queues that store the messages, each once, in the order of `finish`,
        `rows`.
        """
        places = self._places
        touched = self._touched[: self._args.touched_count].tolist()
        self._rows = [slot * _SLOT_FIELDS for slot in touched]
        return [places[slot] for slot in touched]

    def finish(self, offset: int, wall: int, nexts: Iterable[tuple[int, int]]) -> bool:
        """Complete the records for log offset `offset`; return whether that succeeded.

        `nexts`: next queue offset and delay (ms, -1: none) of each queue of `places`.
        """
        slots = self._slots
        for at, (queue_offset, delay_ms) in zip(self._rows, nexts, strict=True):
            slots[at], slots[at + 1] = queue_offset, delay_ms
        size: int = self._library.finish(self._at, offset, wall)
        return size >= 0

    def rows(self) -> list[tuple[int, int]]:
        """Return (messages, position of their units) of each place, after `finish`."""
        slots = self._slots
        return [(slots[at + 2], slots[at + 3]) for at in self._rows]

    def topics(self) -> list[str]:
        """Return the topic that stores each message, in order."""
        places = self._places
        singles = self._views["singles"][: self.count * _SINGLE.size]
        return [places[row[2]][0] for row in _SINGLE.iter_unpack(singles)]

    def pop_sent(self) -> list[tuple[tuple[str, int], int, int]]:
        """Return what was staged since the last call.

        That is (requested place, messages, bytes of their records) for each place.
        """
        args, slots, places = self._args, self._slots, self._places
        found = []
        for slot in self._counted[: args.counted_count].tolist():
            at = slot * _SLOT_FIELDS + _SENT_FIELD
            found.append((places[slot], slots[at], slots[at + 1]))
            slots[at : at + 2] = _NO_SENT
        args.counted_count = 0
        return found

    def pop_message_sizes(self) -> list[SentSizes]:
        """Return what was staged since the last call, by topic and type of message."""
        found = []
        fields = _TYPES * _SIZE_FIELDS
        for number, topic in enumerate(self._topics):
            start = number * fields
            sizes = self._sizes[start : start + fields].tolist()
            if not any(sizes):
                continue
            for message_type in range(_TYPES):
                at = message_type * _SIZE_FIELDS
                *counts, total = sizes[at : at + _SIZE_FIELDS]
                if total:
                    found.append(SentSizes(topic, message_type, counts, total))
                    self._sizes[start + at : start + at + _SIZE_FIELDS] = _NO_SIZES
        return found

    @property
    def has_ends(self) -> bool:
        """Whether transaction ends were collected since `drop_ends`."""
        return bool(self._args.endings_count)

    def ends(self) -> StagedEnds:
        """Return the collected transaction ends; their native data is valid until `drop_ends`."""
        args = self._args
        size = args.endings_count * _ENDING.size
        rows = _ENDING.iter_unpack(self._views["endings"][:size])
        texts = bytes(self._views["texts"][: args.texts_size])
        return StagedEnds(list(map(Ended._make, rows)), texts, args.endings, args.texts)

    def drop_ends(self) -> None:
        """Drop the collected transaction ends after they were processed."""
        self._args.endings_count = self._args.texts_size = 0

    @property
    def records(self) -> memoryview:
        """The records; valid until the next `stage_raw`, like `units`."""
        return self._views["out"][: self.size]

    @property
    def units(self) -> memoryview:
        """The units of all places, at the positions that `rows` returns."""
        return self._views["units"]

    def keys(self, offset: int, end: int, wall: int) -> PackedKeys | None:
        """Return the index keys of records from log offset `offset` to `end`; None without keys."""
        size = self._args.keys_count * KEY_BYTES
        data = bytes(self._views["keys"][:size])
        return PackedKeys(data, offset, end, wall) if data else None

    def answers(self) -> list[bytes]:
        """Return the answers of each read."""
        view, start, found = self._views["answers"], 0, []
        for end in self._ends[: self._args.reads].tolist():
            found.append(bytes(view[start:end]))
            start = end
        return found

    def unpack(self) -> list[ReturnedMessage]:
        """Return all messages as drafts, because Python must append them."""
        out = self._views["out"]
        singles = self._views["singles"][: self.count * _SINGLE.size]
        found: list[ReturnedMessage] = []
        for at, size, _, queue_id, opaque, code, key_at, key_size, read in _SINGLE.iter_unpack(
            singles
        ):
            data = bytes(out[at : at + size])
            fields = record.HEAD.unpack_from(data)
            begin, end = record.body_span(data, 0)
            properties = record.properties_at(data, 0)
            draft = Draft(
                record.topic_at(data, 0).decode(), fields[3], data[begin:end], properties, code,
                (), fields[4], fields[7], fields[8], fields[9], fields[12], fields[13],
            )  # fmt: skip
            key = data[key_at : key_at + key_size].decode()
            found.append(ReturnedMessage(draft, opaque, key, read, queue_id))
        return found

    def clear(self) -> None:
        """Drop the messages after they were appended or returned; transaction ends are kept."""
        self._library.clear(self._at)
