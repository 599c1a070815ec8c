"""Repairs a damaged log in place; old bytes are kept in `cut/` before they are overwritten.

A damaged range is repaired by flipping back its one wrong bit, if the checksum shows which, or with
the bytes of a replica; otherwise fillers replace it. A filler is a record of a rolled back
transaction: RocketMQ and this store skip such records and derive no unit and no key from them. So
all later log offsets stay, and so do queue offsets: the queue offsets of lost messages become a
hole.
"""

from epochmq.base.errors import StoreDamaged
from epochmq.base.ports import Disk
from epochmq.model.record import BLANK, blank, encode
from epochmq.model.sys_flag import TX_ROLLBACK
from epochmq.store.batch_queue import BatchQueue
from epochmq.store.checkpoint import Checkpoint
from epochmq.store.checksums import BlockChecksums, BlockVerdict
from epochmq.store.commit_log import CommitLog
from epochmq.store.damage import Damage, DamageSearch, expected_of
from epochmq.store.log_end import keep
from epochmq.store.options import StoreOptions
from epochmq.store.queue_table import QueueTable, QueueTypes, unknown_type
from epochmq.store.recovery import ABORT
from epochmq.store.scan import ScanEnd, walk
from epochmq.store.segment import Segment

FILLER_TOPIC = b"EPOCHMQ_DAMAGED"
_FILLER_BYTES = 1 << 20
_HEAD_BYTES = 91
"""A record's bytes without body, topic and properties."""
_NO_HOST = bytes(8)


class NotRight(StoreDamaged):
    """Replacement bytes are not what was written at this place."""


def fillers(start: int, stop: int, wall: int, *, ends_file: bool = False) -> bytes:
    """Return filler records for `[start, stop)` of the log; `wall` is their store time (ms).

    With `ends_file` the range ends at the end of its file, and so with the file's blank.
    """
    size = stop - start
    tail = b""
    if ends_file:
        tail = blank(size) if size < 2 * _HEAD_BYTES else blank(BLANK.size)
        size = 0 if size < 2 * _HEAD_BYTES else size - BLANK.size
    parts = []
    at = start
    while size > 0:
        part = size if size < 2 * _FILLER_BYTES else _FILLER_BYTES
        parts.append(_filler(at, part, wall))
        at += part
        size -= part
    data = b"".join(parts) + tail
    return data.ljust(stop - start, b"\0")


def _filler(offset: int, size: int, wall: int) -> bytes:
    topic = FILLER_TOPIC[: size - _HEAD_BYTES]
    if not topic:
        raise StoreDamaged(f"{size} bytes at log offset {offset} are too few for a record")
    body = bytes(size - _HEAD_BYTES - len(topic))
    return encode(
        topic,
        body,
        b"",
        0,
        0,
        0,
        offset,
        TX_ROLLBACK,
        wall,
        _NO_HOST,
        wall,
        _NO_HOST,
        0,
        0,
    )


def replace_bytes(disk: Disk, segment: Segment, offset: int, data: bytes) -> str:
    """Overwrite bytes of one log file durably; return the path of the old bytes under `cut/`.

    Raises `DiskFull` if there is no space to keep the old bytes: then nothing has changed.
    """
    at = offset - segment.start
    kept = keep(disk, segment, at, len(data), f"damaged-{offset}")
    segment.file.write(at, data)
    segment.file.sync()
    return kept


class Repair:
    """One repair of a stopped store; it holds the store's lock until `close`."""

    def __init__(
        self,
        disk: Disk,
        options: StoreOptions,
        types: QueueTypes = unknown_type,
        *,
        boot: str = "",
    ) -> None:
        self._disk = disk
        self._lock = disk.lock("lock")
        self._log = CommitLog(disk, options)
        self._queues = QueueTable(disk, options, types)
        self._checkpoint = Checkpoint(disk)
        self._checksums = BlockChecksums(disk, self._log)
        self._replicated = options.replicated
        self._boot = boot
        self.damages: list[Damage] = []
        self.kept: list[str] = []
        """Where the bytes are that were overwritten."""
        try:
            self._log.load()
            self._checkpoint.load()
            if self._checkpoint.foreign:
                self._checksums.restart(0)
            self._checksums.load()
            self._queues.load()
            self.search()
        except BaseException:
            self.close()
            raise

    def search(self) -> list[Damage]:
        """Read the whole log; return the damage."""
        reach = max((queue.reach for queue in self._queues.all()), default=0)
        clean = not self._disk.exists(ABORT)
        expected = expected_of(
            self._checkpoint, self._checksums, reach, clean=clean, boot=self._boot
        )
        search = DamageSearch(
            self._log, self._queues, self._checksums, expected, anywhere=self._replicated
        )
        self.damages = search.run(self._log.start)
        return self.damages

    def close(self) -> None:
        self._log.close()
        self._queues.files.close()
        self._checksums.close()
        self._checkpoint.close()
        self._lock.release()

    # Right bytes ------------------------------------------------------------------------------

    def mend(self, damage: Damage) -> bool:
        """Flip back a single flipped bit, if the checksum showed which; return whether it did."""
        if damage.bit is None:
            return False
        segment = self._segment(damage)
        at = damage.bit // 8
        byte = segment.file.read(at, 1)[0] ^ 1 << damage.bit % 8
        self.kept.append(replace_bytes(self._disk, segment, segment.start + at, bytes([byte])))
        return True

    def around(self, damage: Damage, margin: int = 4096) -> tuple[int, int]:
        """Return the range to request from a replica: the bytes beside the damage prove a match."""
        segment = self._segment(damage)
        low = max(damage.start - margin, segment.start)
        return low, min(damage.stop + margin, segment.end)

    def copy(self, damage: Damage, start: int, data: bytes) -> None:
        """Write a replica's bytes; `data` begins at log offset `start` of the replica.

        Raises `NotRight`, and changes nothing, if they are not the bytes that were written here.
        """
        segment = self._segment(damage)
        first, last = damage.start - start, damage.stop - start
        if first < 0 or len(data) < last:
            raise NotRight(f"the replica has no bytes for log offset {damage.start}")
        for low, high in ((0, first), (last, len(data))):
            mine = segment.file.read(start - segment.start + low, high - low)
            if mine != data[low:high]:
                raise NotRight("the replica's log differs beside the damage: it is another log")
        right = data[first:last]
        if _records_end(damage.start, right) != damage.stop:
            raise NotRight(f"the replica's bytes at log offset {damage.start} are damaged, too")
        self._check_blocks(segment, damage.start, right)
        self.kept.append(replace_bytes(self._disk, segment, damage.start, right))

    def _check_blocks(self, segment: Segment, offset: int, data: bytes) -> None:
        """Raise `NotRight` if a block with `data` in place differs from its checksum."""
        others = [d for d in self.damages if not offset <= d.start < offset + len(data)]
        for start in self._checksums.blocks_of(offset, offset + len(data)):
            block = self._checksums.block_at(start)
            if any(d.start < block.stop and d.stop > block.start for d in others):
                continue  # it is checked by the search that follows the repair of all
            have = bytearray(segment.file.read(start - segment.start, block.stop - start))
            low, high = max(offset, start), min(offset + len(data), block.stop)
            have[low - start : high - start] = data[low - offset : high - offset]
            if block.verify(have) is BlockVerdict.WRONG:
                raise NotRight(f"the replica's bytes at log offset {offset} have another checksum")

    # Fillers ----------------------------------------------------------------------------------

    def skip(self, damage: Damage) -> None:
        """Give up the messages of the range: fillers replace them, queues get holes."""
        segment = self._log.find(damage.start)
        if segment is None:
            self._end_log(damage.start)
            return
        data = fillers(
            damage.start,
            damage.stop,
            self._wall_before(segment, damage.start),
            ends_file=damage.stop == segment.end,
        )
        for queue in self._queues.all():
            if not isinstance(queue, BatchQueue):
                queue.blank_units(damage.start, damage.stop)
        for path in sorted(self._queues.files.unsynced):
            self._queues.files.get(path).sync()
        self._checksums.forget(damage.start, damage.stop)
        self.kept.append(replace_bytes(self._disk, segment, damage.start, data))
        self._checksums.renew(damage.start, damage.stop)

    def _wall_before(self, segment: Segment, offset: int) -> int:
        """Return the store time (ms) of the last record before `offset` in its file."""
        wall = 0
        for entry in walk(segment.view, segment.start, 0, ScanEnd(), crc=False):
            if entry.offset >= offset:
                return wall or entry.store_wall_ms
            wall = entry.store_wall_ms
        return wall or self._checkpoint.log_wall_ms

    def _end_log(self, end: int) -> None:
        """End the log before missing files at its end."""
        self._checkpoint.lower_end(end)
        self._checkpoint.write()
        self._checkpoint.sync()
        self._checksums.invalidate(end)

    def _segment(self, damage: Damage) -> Segment:
        segment = self._log.find(damage.start)
        if segment is None:
            raise StoreDamaged(
                "whole log files are missing: restore them, or copy the store directory of a"
                " replica that is stopped"
            )
        return segment


def _records_end(offset: int, data: bytes) -> int:
    """Return where the records of `data`, which begins at log offset `offset`, end."""
    end = ScanEnd()
    for _ in walk(memoryview(data), offset, 0, end):
        pass
    return end.offset
