"""The ordinary single sends of one turn: taken read by read, completed at the log's end."""

import ctypes
from struct import Struct

import msgspec

from epochmq.base.limits import HEADER_BYTES_MAX
from epochmq.model import record
from epochmq.model.tags import java_hash
from epochmq.store.draft import Draft
from epochmq.store.layout import UNIT_BYTES
from epochmq.store.twin.keys import KEY_BYTES, PackedKeys
from epochmq.store.twin.library import Library, SendArgs
from epochmq.store.twin.memory import Memory

RECORDS_BYTES_MAX = 8 << 20
"""More than this of one turn is left to Python; memory is used only as far as it was written."""

MESSAGES_MAX = 8192
KEYS_MAX = 2 * MESSAGES_MAX
SLOTS_MAX = 16_384
ANSWERS_BYTES_MAX = 8 << 20
_SINGLE = Struct("=q8i")
"""A record's place; its size, slot, queue id, opaque, tags code, key's place and size, read."""


_SLOT_FIELDS = 4
"""i64 next queue offset, messages, bytes of records, where the units begin: `slot` of send.c."""


class SendTexts(msgspec.Struct, frozen=True):
    """What a broker's options say about records and answers."""

    tail: bytes
    """Added to every message's properties; begins with 0x02."""
    middle: bytes
    """Of an answer: from behind the UNIQ_KEY to before the opaque."""
    end: bytes
    """Of an answer: from behind the opaque."""
    body_max: int
    record_max: int
    index: bool


class Taken(msgspec.Struct, gc=False):
    """A message that goes back to Python: its draft without keys, and what its answer needs."""

    draft: Draft
    opaque: int
    uniq_key: str
    read: int


class SendRun:
    """The messages of a turn, in order, not yet in the log; places are (topic, queue id)."""

    def __init__(self, library: Library, store_host: bytes, texts: SendTexts) -> None:
        self._library = library
        self._desk = Memory(library.desk_bytes())
        self._args = SendArgs.from_address(self._desk.address)
        self._at = ctypes.addressof(self._args)
        self._take = library.take
        self._rows: list[int] = []
        buffers = {
            name: Memory(size)
            for name, size in (
                ("out", RECORDS_BYTES_MAX),
                ("singles", _SINGLE.size * MESSAGES_MAX),
                ("keys", KEY_BYTES * KEYS_MAX),
                ("units", UNIT_BYTES * MESSAGES_MAX),
                ("answers", ANSWERS_BYTES_MAX),
                ("slots", 8 * _SLOT_FIELDS * SLOTS_MAX),
                ("touched", 4 * SLOTS_MAX),
                ("ends", 8 * MESSAGES_MAX),
            )
        }
        self._views = {name: memory.view for name, memory in buffers.items()}
        self._slots = self._views["slots"].cast("q")
        self._touched = self._views["touched"].cast("i")
        self._ends = self._views["ends"].cast("q")
        self._places: list[tuple[str, int]] = []
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

    # Topics ----------------------------------------------------------------------------------

    def add_topic(self, topic: str, queues: int, sys_flag: int) -> None:
        """Take sends to `topic` from now on, if there is room for it."""
        name = topic.encode()
        prefix = java_hash(topic + "#") & 0xFFFFFFFF
        first = self._library.lane_add(self._at, name, len(name), queues, sys_flag, prefix)
        if first >= 0:
            del self._places[first:]
            self._places += [(topic, queue_id) for queue_id in range(queues)]

    def forget_topics(self) -> None:
        """Take none, until they are added again; nothing may be staged."""
        self._library.lanes_clear(self._at)
        self._places.clear()

    # A turn ----------------------------------------------------------------------------------

    def take(self, address: int, size: int, born_host: bytes) -> int:
        """Stage the sends at the front of `size` bytes; how many bytes they had."""
        taken: int = self._take(self._at, address, size, born_host)
        return taken

    @property
    def count(self) -> int:
        """Messages staged."""
        return int(self._args.count)

    @property
    def size(self) -> int:
        """Bytes of their records."""
        return int(self._args.out_size)

    def places(self) -> list[tuple[str, int]]:
        """The queues they go to, each once; `nexts` and `rows` have the same order."""
        self._rows = self._touched[: self._args.touched_count].tolist()
        return [self._places[slot] for slot in self._rows]

    def finish(self, offset: int, wall: int, nexts: list[int]) -> bool:
        """Complete them for log position `offset`, the queues of `places` going on at `nexts`."""
        slots = self._slots
        for slot, queue_offset in zip(self._rows, nexts, strict=True):
            slots[slot * _SLOT_FIELDS] = queue_offset
        size: int = self._library.finish(self._at, offset, wall)
        return size >= 0

    def rows(self) -> list[list[int]]:
        """[messages, bytes of their records, where their units begin] of each place."""
        slots = self._slots
        return [slots[at + 1 : at + _SLOT_FIELDS].tolist() for at in
                [slot * _SLOT_FIELDS for slot in self._rows]]  # fmt: skip

    @property
    def records(self) -> memoryview:
        """Valid until the next `take`, as `units` are."""
        return self._views["out"][: self.size]

    @property
    def units(self) -> memoryview:
        """Units of all places, as `rows` says."""
        return self._views["units"]

    def keys(self, offset: int, wall: int) -> PackedKeys | None:
        """The index keys, None for none."""
        size = self._args.keys_count * KEY_BYTES
        data = bytes(self._views["keys"][:size])
        return PackedKeys(data, offset, offset + self.size, wall) if data else None

    def answers(self) -> list[bytes]:
        """The answers of each read."""
        view, start, found = self._views["answers"], 0, []
        for end in self._ends[: self._args.reads].tolist():
            found.append(bytes(view[start:end]))
            start = end
        return found

    def unpack(self) -> list[Taken]:
        """All of them as drafts: Python has to append them after all."""
        out = self._views["out"]
        singles = self._views["singles"][: self.count * _SINGLE.size]
        found: list[Taken] = []
        for at, size, _, queue_id, opaque, code, key_at, key_size, read in _SINGLE.iter_unpack(
            singles
        ):
            data = bytes(out[at : at + size])
            fields = record.HEAD.unpack_from(data)
            begin, end = record.body_span(data, 0)
            properties = record.properties_at(data, 0)
            draft = Draft(
                record.topic_at(data, 0).decode(), queue_id, data[begin:end], properties, code,
                (), fields[4], fields[7], fields[8], fields[9], fields[12],
            )  # fmt: skip
            key = data[key_at : key_at + key_size].decode()
            found.append(Taken(draft, opaque, key, read))
        return found

    def clear(self) -> None:
        """They are in the log, or given back."""
        self._library.clear(self._at)
