"""Makes the whole answer to a pull in one native call: header, and all records it asks for.

Only for the usual case: a plain queue without damage, whose records this process has written and
which are in memory. In all other cases there is no answer, and `Reader.read_queue` decides.
"""

import ctypes
from collections.abc import Callable, Sequence
from struct import Struct

from epochmq.base.errors import check
from epochmq.native.library import Library
from epochmq.store.batch_queue import BatchQueue
from epochmq.store.draft import PRE_BLANK_SIZE, UNIT, UNIT_BYTES
from epochmq.store.log_memory import LogMemory
from epochmq.store.pointers import Pointers
from epochmq.store.read_check import ReadCheck
from epochmq.store.store_files import StoreFiles
from epochmq.store.units import NEIGHBOURS_MAX, NativeNeighbours

_TEXTS = 8
_NUMBERS = Struct("=7q")
_I64 = ctypes.c_int64

BODY_BYTES_MAX = 512 * 1024
"""Larger answers are written as views of the log, without a copy (`runtime/connection.py`)."""


class PullHeadArgs(ctypes.Structure):
    """`pull_head` of message_objects.c."""

    _fields_ = [
        ("numbers", _I64 * (_TEXTS - 1)), ("sizes", _I64 * _TEXTS), ("texts", ctypes.c_char_p),
        ("size_max", _I64),
    ]  # fmt: skip


MIRRORED = {"pull_head": ctypes.sizeof(PullHeadArgs)}
"""Structures that are also defined in C."""


class PullAnswers:
    """Makes answers to pulls; `count`, `size` and `next_offset` describe the last answer."""

    def __init__(
        self,
        library: Library,
        files: StoreFiles,
        pointers: Pointers,
        read_check: ReadCheck,
        memory: LogMemory,
        header_parts: Sequence[bytes],
        found: Callable[[int], None],
    ) -> None:
        """Make the answers of one store.

        Args:
            library: the native code.
            files, pointers, read_check, memory: those of the store's `Reader`.
            header_parts: the constant parts of an answer's header, with a number between each two:
                suggested broker, next, minimum and maximum queue offset, the system flags of topic
                and group, and the opaque.
            found: called with the number of messages of each answer.
        """
        check(len(header_parts) == _TEXTS, "the header of a pull's answer has 8 constant parts")
        library.check_sizes(MIRRORED)
        self._queues = files.queues
        self._log = files.log
        self._pointers = pointers
        self._damage = read_check.damage
        self._memory = memory
        self._found = found
        self._neighbours = NativeNeighbours(library)
        self._head = PullHeadArgs(
            sizes=(_I64 * _TEXTS)(*map(len, header_parts)),
            texts=b"".join(header_parts),
            size_max=BODY_BYTES_MAX,
        )
        self._head_at = ctypes.addressof(self._head)
        self._numbers = memoryview(self._head).cast("B")
        self.count = self.size = self.next_offset = 0

    def make(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_count: int,
        max_bytes: int,
        suggested_broker: int,
        topic_sys_flag: int,
        group_sys_flag: int,
        opaque: int,
    ) -> bytes | None:
        """Return the answer with the messages from `offset` on; None if it is not the usual case.

        The limits are those of `Reader.read_queue`; the last four arguments are for the header.
        """
        queue = self._queues.find(topic, queue_id)
        pointers = self._pointers
        if queue is None or queue.floor != pointers.start or self._damage.ranges:
            return None
        low, high = queue.min, queue.visible
        if offset < low or offset >= high or offset < queue.trusted or max_count > NEIGHBOURS_MAX:
            return None
        if isinstance(queue, BatchQueue):
            return None
        units = queue.units(offset, min(max_count, high - offset), is_reader=True)
        if len(units) < UNIT_BYTES:
            return None
        at, size, _tags = UNIT.unpack_from(units)
        if size == PRE_BLANK_SIZE or (
            pointers.readable - pointers.start > self._memory.window_bytes
            and not self._is_in_memory(at, units)
        ):
            return None
        segment = self._log.find(at)
        if segment is None:
            return None
        _NUMBERS.pack_into(
            self._numbers, 0, suggested_broker, 0, low, high, topic_sys_flag, group_sys_flag, opaque
        )
        answer = self._neighbours.answer(
            segment.view, segment.start, units, offset, queue_id, max_bytes, self._head_at
        )
        if not answer:
            return None
        found = self._neighbours.found
        self.count, self.size = found.records, found.size
        self.next_offset = offset + found.passed
        self._found(self.count)
        return answer

    def _is_in_memory(self, start: int, units: bytes) -> bool:
        """Return whether the records of `units` are in memory; the first one is at `start`."""
        memory = self._memory
        if not memory.may_lack(start):
            return True
        last, size, _tags = UNIT.unpack_from(units, len(units) - UNIT_BYTES)
        return memory.is_here(start, last + size - start)
