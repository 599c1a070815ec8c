"""Rebuilds messages from stored records, in native code, to append them again.

These are committed half messages and delayed messages that are due. The results are drafts that are
encoded as records already: they are passed on like drafts, and the log appends them as one run. If
that is not possible, they are appended as the ordinary drafts that they stand for.
"""

import ctypes
from collections.abc import Callable, Sequence
from itertools import chain
from typing import overload

from epochmq.model import properties as props
from epochmq.model import record
from epochmq.model.names import (
    HALF_TOPIC,
    NOT_SENDABLE_TOPICS,
    REVIVE_TOPIC_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
)
from epochmq.model.property_names import REAL_QID, REAL_TOPIC
from epochmq.native.library import Library, RemakeArgs
from epochmq.native.memory import BufferAddress
from epochmq.store.commit_log import CommitLog
from epochmq.store.dispatch import index_keys
from epochmq.store.draft import Draft
from epochmq.store.native_send import HALF, LEVELS, TIMED, SendRun, SendTexts, StagedEnds
from epochmq.store.options import StoreOptions

QUEUES_MAX = 1024
"""Limit of known queues; messages for other queues are left to Python."""
QUEUES_LEAST = 16

Source = tuple[int, int, int]
"""A record's log offset and size; of a half message the number of its end, of one for an exact time
when it was hung up."""

_KEPT = frozenset({*NOT_SENDABLE_TOPICS, TIMER_TOPIC})


class Remade(Sequence[Draft]):
    """Drafts that are whole records in native memory; valid until the next ones are made."""

    def __init__(self, run: SendRun) -> None:
        self.run = run
        self._count = run.count
        self._drafts: list[Draft] | None = None

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, at: int) -> Draft: ...

    @overload
    def __getitem__(self, at: slice) -> list[Draft]: ...

    def __getitem__(self, at: int | slice) -> Draft | list[Draft]:
        return self.drafts()[at]

    def drafts(self) -> list[Draft]:
        """Return the ordinary drafts for these records."""
        if self._drafts is None:
            self._drafts = [one.draft for one in self.run.unpack()]
            for draft in self._drafts:
                draft.keys = index_keys(draft.properties)
        return self._drafts


class Remaker:
    """Rebuilds messages for one store; `takes` says whether a topic may have plain queues."""

    def __init__(
        self,
        native: Library,
        options: StoreOptions,
        store_host: bytes,
        log: CommitLog,
        takes: Callable[[str], bool],
    ) -> None:
        record_max = min(options.message_bytes_max, options.commit_log_file_bytes)
        record_max -= record.TRAILING_BLANK_BYTES
        texts = SendTexts(b"\x02", b"", b"", record_max, record_max, options.index)
        self._run = SendRun(native, store_host, texts)
        self._remake = native.remake
        self._args = RemakeArgs(send_turn=self._run.send_turn_address)
        self._at = ctypes.addressof(self._args)
        self._find = log.find
        self._takes = takes
        self._queues: dict[str, int] = {}
        self._forget()

    def make(
        self,
        kind: int,
        sources: Sequence[Source],
        limit: int,
        wall: int,
        ends: StagedEnds | None = None,
    ) -> Remade:
        """Rebuild the leading `sources` that the native code supports, below log offset `limit`.

        The result may be empty. The records of one call are in one file of the log.
        """
        run = self._run
        run.clear()
        offset, size, _ = sources[0]
        segment = self._find(offset)
        if segment is None:
            return Remade(run)
        view = segment.view
        rows = (ctypes.c_int64 * (3 * len(sources)))(*chain.from_iterable(sources))
        args = self._args
        with BufferAddress(view) as args.log:
            args.start, args.end = segment.start, min(segment.end, limit)
            args.sources, args.count = ctypes.addressof(rows), len(sources)
            args.kind, args.wall = kind, wall
            if ends is not None:
                args.endings, args.texts = ends.endings_at, ends.texts_at
            if not self._remake(self._at):
                at = offset - segment.start
                if offset + size <= args.end and self._learn(view[at : at + size]):
                    self._remake(self._at)
        return Remade(run)

    def _learn(self, raw: memoryview) -> bool:
        """Register the topic of a record's message; return whether it is new."""
        if record.check(raw, 0, len(raw), crc=False) <= 0:
            return False
        found = props.decode_bytes(record.properties_at(raw, 0))
        topic, text = found.get(REAL_TOPIC, ""), found.get(REAL_QID, "")
        if not text.isdecimal() or len(text) > 5 or int(text) >= QUEUES_MAX:
            return False
        known = self._queues.get(topic, 0)
        if int(text) < known or topic in _KEPT or topic.startswith(REVIVE_TOPIC_PREFIX):
            return False
        if not self._takes(topic):
            return False
        queues = max(QUEUES_LEAST, 1 << int(text).bit_length())
        if not known and self._run.add_topic(topic, queues, 0):
            self._queues[topic] = queues
            return True
        if known:
            self._queues[topic] = queues
        else:  # no room: topics in use are registered again
            self._queues = {topic: queues}
        self._forget()
        return topic in self._queues

    def _forget(self) -> None:
        """Register only the topics in `_queues` with the native code, as far as there is room."""
        run = self._run
        run.forget_topics()
        for kind, topic in ((HALF, HALF_TOPIC), (LEVELS, SCHEDULE_TOPIC), (TIMED, TIMER_TOPIC)):
            run.add_topic(topic, 1, 0, 0, kind)
        self._queues = {
            topic: queues
            for topic, queues in self._queues.items()
            if run.add_topic(topic, queues, 0)
        }
