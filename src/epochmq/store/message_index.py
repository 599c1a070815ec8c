"""The index over message keys: a sequence of index files, of which the last one is filled."""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from epochmq.base.ports import Disk
from epochmq.model.crc import crc32
from epochmq.model.tags import extend_hash
from epochmq.native.native_index import PackedKeys
from epochmq.store.held_keys import Row, Staged, java_hashes, one_hash
from epochmq.store.index_checksums import IndexDamaged, checksums_path
from epochmq.store.index_file import (
    SET_BACK_MS,
    IndexFile,
    IndexSync,
    file_bytes,
    file_name,
    positive,
)
from epochmq.store.options import StoreOptions

_log = logging.getLogger(__name__)

FOLDER = "index"
START_FILE = "indexStart"
"""Notes `Index.complete_from`: the number, and its CRC-32 in hexadecimal."""
_PREFIXES_MAX = 4096


@dataclass(frozen=True, slots=True)
class IndexResult:
    """Records with the key, in log order, and the newest message that is in the index."""

    records: list[memoryview]
    last_update_ms: int
    last_update_offset: int


class Index:
    """The hash index; `add` adds keys in log order."""

    def __init__(self, disk: Disk, options: StoreOptions) -> None:
        self._disk = disk
        self._slots = options.index_slots
        self._items = options.index_items
        self.files: list[IndexFile] = []
        self.stale: list[IndexFile] = []
        """Files found at start that may be incomplete, and are not deleted yet."""
        self._prefixes: dict[str, int] = {}
        self.unsynced: list[IndexFile] = []
        self._gone: list[IndexFile] = []
        """Files removed by `cut` that are not closed yet."""
        self._folder_changed = False
        """Whether a file was created whose name is not synced yet."""
        self.complete_from = 0
        """Log offset from which all readable messages with keys are in the index."""

    def load(self, *, clean: bool, synced_wall_ms: int) -> int | None:
        """Open the files; return the log offset from which keys must be indexed again, or None.

        After a crash, files that were not synced completely are left out, and wait for
        `remove_stale`.
        """
        rebuild: int | None = None
        names = self._disk.list(FOLDER)
        for name in names:
            path = f"{FOLDER}/{name}"
            size = self._disk.size(path)
            short = size < file_bytes(self._slots, self._items) and name == names[-1]
            if size == 0 or (short and not clean):
                self._disk.remove(path)  # a crash while it was being made, or after a failed sync
                continue
            file = IndexFile(self._disk, path, self._slots, self._items, create=False)
            if rebuild is not None or (not clean and file.last_wall_ms > synced_wall_ms):
                rebuild = file.first_offset if rebuild is None else rebuild
                self.stale.append(file)
                continue
            if not _is_sound(file, clean=clean):
                rebuild = self.next_from
                self.stale.append(file)
                continue
            if not clean and file.count == 1:
                # Its header never got to the device. What the checkpoint calls synced may have been
                # in an older file that this one replaced: only what is still here is indexed.
                rebuild = self.next_from
                self.stale.append(file)
                continue
            self.files.append(file)
        if self.files and not clean:
            self.files[-1].repair_slots()
            self.unsynced = [self.files[-1]]
        return rebuild

    def remove_stale(self) -> None:
        """Delete the files that `load` left out, after the checkpoint's claim was removed."""
        for file in self.stale:
            self._drop(file)
        self.stale = []

    def forget_checksums(self) -> None:
        """Delete the checksums of the last file, which is filled from now on."""
        if self.files and not self.files[-1].full:
            self._disk.remove(checksums_path(self.files[-1].path))

    def _drop(self, file: IndexFile) -> None:
        file.close()
        self._disk.remove(file.path)
        self._disk.remove(checksums_path(file.path))

    def write_checksums(self) -> None:
        """Write the checksums of the file that is being filled, at a clean stop."""
        if self.files and not self.files[-1].full and self.files[-1].count > 1:
            self.files[-1].write_checksums()

    def trust_from(self, keys_from: int, *, foreign: bool) -> None:
        """Set `complete_from`: what an earlier run noted, or `keys_from` where nothing is noted.

        Args:
            keys_from: log offset from which this run adds all keys.
            foreign: whether another program may have used the store since.
        """
        noted = None if foreign else _noted_start(self._disk)
        if noted is None:
            noted = keys_from
            self._disk.write_file(START_FILE, _start_note(noted))
        self.complete_from = noted

    @property
    def has_holes(self) -> bool:
        """Whether a file before the last one has fewer items than fit: keys were lost then."""
        return any(not file.full for file in self.files[:-1])

    @property
    def last_offset(self) -> int:
        """Log offset of the newest message in the index; -1 if there is none."""
        return self.files[-1].last_offset if self.files and self.files[-1].count > 1 else -1

    @property
    def next_from(self) -> int:
        """Log offset from which keys may be missing.

        The keys of one message may be in two files. If only the first of these files is left, the
        message counts as missing, and its first keys will be in the index twice.
        """
        is_cut = bool(self.files) and self.files[-1].full
        return self.last_offset + (0 if is_cut else 1)

    def reaches(self, end: int) -> bool:
        """Whether `cut` would delete files."""
        return bool(self.files) and self.files[-1].count > 1 and self.files[-1].last_offset >= end

    def cut(self, end: int) -> int | None:
        """Delete files that contain offsets at or beyond `end`; return where to rebuild from."""
        rebuild, paths = self.drop_files(end)
        self.delete(paths)
        return rebuild

    def drop_files(self, end: int) -> tuple[int | None, list[str]]:
        """Forget the files that contain offsets at or beyond `end`, without using the disk.

        Returns the log offset to rebuild from (None: no file was dropped), and the paths that the
        caller passes to `delete`.
        """
        rebuild: int | None = None
        paths = []
        while self.reaches(end):
            file = self.files.pop()
            rebuild = file.first_offset
            self.unsynced = [f for f in self.unsynced if f is not file]
            self._gone.append(file)  # it may be syncing now
            paths.append(file.path)
        return rebuild, paths

    def delete(self, paths: list[str]) -> None:
        """Delete dropped files durably; this may block, and may run outside the event loop."""
        for path in paths:
            self._disk.remove(path)
            self._disk.remove(checksums_path(path))
        if paths:
            self._disk.sync_dir(FOLDER)

    def _prefix(self, topic: str) -> int:
        found = self._prefixes.get(topic)
        if found is None:
            if len(self._prefixes) >= _PREFIXES_MAX:
                self._prefixes.clear()
            found = self._prefixes[topic] = extend_hash(0, topic + "#")
        return found

    def add(self, staged: Staged) -> None:
        """Index staged messages, in memory; after an error nothing has been added."""
        plain: list[Row] = []
        count = sum(len(row) if isinstance(row, PackedKeys) else len(row[1]) for row in staged)
        if not count:
            return
        first = staged[0]
        self._make_room(count, first.wall_ms if isinstance(first, PackedKeys) else first[3])
        packed: list[bytes] = []
        for row in staged:
            if isinstance(row, PackedKeys):
                self._add_plain(plain)
                packed.append(row.data)
            else:
                self._add_packed(packed)
                plain.append(row)
        self._add_plain(plain)
        self._add_packed(packed)

    def _add_plain(self, rows: list[Row]) -> None:
        """Add `rows` and empty the list."""
        if not rows:
            return
        prefixes: list[int] = []
        keys: list[str] = []
        places: list[tuple[int, int]] = []
        for topic, names, offset, wall in rows:
            prefix = self._prefix(topic)
            for name in names:
                prefixes.append(prefix)
                keys.append(name)
                places.append((offset, wall))
        rows.clear()
        hashes = java_hashes(prefixes, keys)
        at = 0
        while at < len(hashes):
            file = self._filling()
            at = file.put(hashes, places, at)
            self._touch(file)

    def _add_packed(self, pieces: list[bytes]) -> None:
        """Add the packed keys of `pieces` and empty the list."""
        data = b"".join(pieces)
        pieces.clear()
        while data:
            file = self._filling()
            data = data[file.put_packed(data) :]
            self._touch(file)

    def _filling(self) -> IndexFile:
        """Return the first file with room; `_make_room` has created one if needed."""
        return next(file for file in self.files if not file.full)

    def _touch(self, file: IndexFile) -> None:
        if not any(file is other for other in self.unsynced):
            self.unsynced.append(file)

    def _make_room(self, count: int, wall: int) -> None:
        """Create files until `count` more items fit."""
        room = self.files[-1].items_max - self.files[-1].count if self.files else 0
        while room < count:
            names = self._disk.list(FOLDER)
            name = file_name(wall)
            if names and name <= names[-1]:
                name = f"{int(names[-1]) + 1:017d}"
            path = f"{FOLDER}/{name}"
            file = IndexFile(self._disk, path, self._slots, self._items, create=True)
            self._folder_changed = True
            self.files.append(file)
            room += file.items_max - file.count

    def write_items(self) -> None:
        """Write new items to their files; after an error they stay in memory."""
        for file in self.unsynced:
            file.write_items()

    def sync_steps(self) -> list[IndexSync]:
        """Return steps that make everything indexed so far durable, in order."""
        steps = [file.sync_steps() for file in self.unsynced]
        self.unsynced = []
        if steps and self._folder_changed:
            steps[0].first = partial(self._disk.sync_dir, FOLDER)
            self._folder_changed = False
        return steps

    def sync_done(self, failed: bool) -> None:
        """Finish a sync; if it `failed`, everything is written again at the next sync."""
        self._close_gone()
        self._folder_changed = self._folder_changed or failed
        for file in self.files[-3:]:
            if failed:
                file.mark_all_dirty()
                self._touch(file)
            elif file.full and not any(file is other for other in self.unsynced):
                file.release_slots()

    def find(self, topic: str, key: str, count: int, begin: int, end: int) -> list[int]:
        """Return log offsets of messages that may have `key`, newest first."""
        found = (offset for offset in self.walk(topic, key, begin, end) if offset >= 0)
        return list(islice(found, count))

    def walk(self, topic: str, key: str, begin: int, end: int) -> Iterator[int]:
        """Yield the same, item by item, negative numbers for others; see `IndexFile.walk`."""
        key_hash = self.hash_of(topic, key)
        for file in self.files[::-1]:
            if file.count <= 1 or file.first_wall_ms > end:
                continue
            if file.last_wall_ms < begin - SET_BACK_MS:
                return
            yield from file.walk(key_hash, begin, end)

    def items(self) -> Iterator[tuple[int, int]]:
        """Yield (log offset, key hash) of all items, in order."""
        for file in self.files:
            for number in range(1, file.count):
                key_hash, offset, _seconds, _previous = file.item(number)
                yield offset, key_hash

    def hash_of(self, topic: str, key: str) -> int:
        """Return the hash of `key` in `topic`."""
        return positive(one_hash(self._prefix(topic), key))

    def last_update(self) -> tuple[int, int]:
        """Return (store ms, log offset) of the newest message in the index."""
        file = self.files[-1] if self.files else None
        return (file.last_wall_ms, file.last_offset) if file else (0, 0)

    def expire(self, log_start: int) -> None:
        """Delete the oldest files once the log has none of their messages."""
        while len(self.files) > 1 and self.files[0].last_offset < log_start:
            gone = self.files.pop(0)
            self.unsynced = [file for file in self.unsynced if file is not gone]
            self._drop(gone)

    def _close_gone(self) -> None:
        for file in self._gone:
            file.close()
        self._gone = []

    def close(self) -> None:
        self._close_gone()
        for file in self.files:
            file.close()


def _is_sound(file: IndexFile, *, clean: bool) -> bool:
    """Return whether a file can be used; if not, log why."""
    try:
        file.check_start(clean=clean)
    except IndexDamaged as error:
        _log.error("%s; the index is built again from there on", error)
        return False
    return True


# The start of the complete part ---------------------------------------------------------------
# An index of RocketMQ, or one that was switched off for a while, may lack keys, and its files do
# not tell. So `START_FILE` notes from where the index is known to be complete.


def forget_start(disk: Disk) -> None:
    """Remove the note, durably: messages will be stored without their keys."""
    if disk.exists(START_FILE):
        disk.remove(START_FILE)
        disk.sync_dir("")


def _start_note(offset: int) -> bytes:
    number = str(offset).encode()
    return b"%s %08x\n" % (number, crc32(number))


def _noted_start(disk: Disk) -> int | None:
    """Return the noted offset; None without a note, and for a damaged one."""
    data = disk.read_file(START_FILE) or b""
    number, _, _ = data.partition(b" ")
    is_sound = number.isdigit() and len(number) < 20 and data == _start_note(int(number))
    return int(number) if is_sound else None
