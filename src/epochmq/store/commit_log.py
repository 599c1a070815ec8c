"""The commit log: consecutive files of one size, written at the end only."""

from collections.abc import Callable
from contextlib import suppress

from epochmq.base.errors import DiskFailed, DiskFull, OutOfResources, StoreDamaged
from epochmq.base.ports import Buffer, Disk
from epochmq.model.record import blank
from epochmq.store.chores import Step
from epochmq.store.draft import file_name
from epochmq.store.options import StoreOptions
from epochmq.store.segment import Segment
from epochmq.store.written_blocks import WrittenBlocks


class CommitLog:
    """Segments in order; `end` is where the next byte goes."""

    def __init__(self, disk: Disk, options: StoreOptions) -> None:
        self._disk = disk
        self._folder = options.commit_log_dir
        self._reserve = options.preallocate
        self.file_bytes = options.commit_log_file_bytes
        self.segments: list[Segment] = []
        self.ready: Segment | None = None
        """The next file, made ahead of its use."""
        self._nameless: Segment | None = None
        """The file made ahead, while a power cut may take its name."""
        self._made: Segment | None = None
        """The first file of a log that begins again."""
        self.written = WrittenBlocks()
        """Checksums of the blocks that were written since the start."""
        self.end = 0
        self.active_end = 0
        """Where the file being written ends; equal to `end` when the next one must be opened."""
        self.pending: bytearray | None = bytearray() if options.transient_pool else None
        """Appended but not yet written to the file (transientStorePoolEnable)."""

    def load(self) -> None:
        """Open all files; `end` is the end of the last one until recovery lowers it."""
        folder = self._folder
        names = [n for n in self._disk.list(folder) if not self._disk.is_dir(f"{folder}/{n}")]
        if names and self._disk.size(f"{folder}/{names[-1]}") == 0:
            self._disk.remove(f"{folder}/{names.pop()}")  # a crash while it was being made
        for name in names:
            segment = Segment.load(self._disk, folder, name, self.file_bytes)
            if self.segments and self.segments[-1].end != segment.start:
                raise StoreDamaged(
                    f"{folder}: file {file_name(self.segments[-1].end)} is missing before {name};"
                    " restore it, or move the older files away"
                )
            self.segments.append(segment)
        if self.segments:
            self.set_end(self.segments[-1].end)

    @property
    def start(self) -> int:
        """First byte kept; the end when there is no file."""
        return self.segments[0].start if self.segments else self.end

    @property
    def committed(self) -> int:
        """Written to files up to here; below `end` only with a transient pool."""
        return self.end - len(self.pending) if self.pending else self.end

    def set_end(self, end: int) -> None:
        """Place the write position (recovery only)."""
        self.end = end
        self.active_end = self.segments[-1].end if self.segments else end

    def find(self, offset: int) -> Segment | None:
        """The file that holds byte `offset`."""
        if not self.segments:
            return None
        index = (offset - self.segments[0].start) // self.file_bytes
        return self.segments[index] if 0 <= index < len(self.segments) else None

    def write(self, data: Buffer) -> None:
        """Append to the active file, which must have the room."""
        if self.pending is None:
            self._put(self.end, data)
        else:
            self.pending += data
        self.end += len(data)

    def write_raw(self, data: Buffer) -> None:
        """Append bytes of another log to the active file, past the transient pool."""
        self._put(self.end, data)
        self.end += len(data)

    def _put(self, offset: int, data: Buffer) -> None:
        """Write, or leave zeros: what was refused must never come back after a crash."""
        segment = self.segments[-1]
        try:
            segment.write(offset, data)
        except (DiskFull, DiskFailed):
            self.written.clear()
            try:
                segment.write(offset, bytes(len(data)))
            except OutOfResources as error:  # then a block may be there that is not zero
                raise DiskFailed(f"what was refused cannot be erased: {error}") from error
            except DiskFull:
                pass  # what has no block reads as zeros
            segment.file.sync()
            raise
        self.written.add(offset, data, segment.start, segment.end)

    def commit(self) -> None:
        """Write what waits in the transient pool; on an error it goes on waiting."""
        if self.pending:
            self._put(self.committed, self.pending)
            self.pending.clear()

    def first_file(self) -> Callable[[], object] | None:
        """The step that makes the file that the first append needs; None when there is room."""
        return self.make_ready if self.ready is None and self.end == self.active_end else None

    def make_ready(self) -> bool:
        """Make the next file ahead; False when it is there already. `DiskFull`, `DiskFailed`."""
        if self.ready is not None:
            return False
        self.ready = self._make(self.active_end)
        return True

    def _make(self, start: int) -> Segment:
        return Segment.create(
            self._disk, self._folder, start, self.file_bytes, reserve=self._reserve
        )

    def adopt_ready(self, path: str) -> Step:
        """Take the whole, synced file at `path` as the next one.

        The step returned makes its name durable; `named` is to be told then. A log that is in a
        hurry does it in `roll`.
        """
        name = file_name(self.active_end)
        self._disk.rename(path, f"{self._folder}/{name}")
        segment = Segment.load(self._disk, self._folder, name, self.file_bytes)
        self.ready = self._nameless = segment
        return self.sync_names

    def named(self) -> None:
        """The names of all files are on the device."""
        self._nameless = None

    def roll(self) -> None:
        """Fill the active file with a blank and go on in the next one."""
        self.make_ready()
        self.commit()
        if self.end < self.active_end:
            self._put(self.end, blank(self.active_end - self.end))
        ready = self.ready
        assert ready is not None
        if ready is self._nameless:
            self.sync_names()
            self.named()
        self.ready = None
        self.segments.append(ready)
        self.end = ready.start
        self.active_end = ready.end

    def slice(self, offset: int, size: int) -> memoryview | None:
        """`size` bytes from `offset` of one file, without a copy; None when not there."""
        segment = self.find(offset)
        if segment is None or offset + size > segment.end:
            return None
        at = offset - segment.start
        return segment.view[at : at + size]

    def between(self, low: int, high: int) -> list[Segment]:
        """The files that hold bytes of `[low, high)`."""
        return [s for s in self.segments if s.start < high and s.end > low]

    def cut_files(self, end: int) -> None:
        """Remove the files that start behind `end`."""
        self.delete(self.behind(end))
        self.forget(end)

    def behind(self, end: int) -> list[str]:
        """The files that start behind `end`, in the order in which they may go.

        The last one goes first, and before it the one made ahead: a crash leaves no gap.
        """
        later = [segment.path for segment in reversed(self.segments) if segment.start > end]
        return [self.ready.path, *later] if later and self.ready is not None else later

    def delete(self, paths: list[str]) -> None:
        """Delete these files, durably. Reads nothing of this object: it may run beside the loop."""
        for path in paths:
            self._disk.remove(path)
        if paths:
            self.sync_names()  # or they come back behind a log that ends before

    def forget(self, end: int) -> None:
        """The log ends at `end`, and files that start behind it are gone."""
        if self.segments and self.segments[-1].start > end and self.ready is not None:
            self.ready.close()
            self.ready = None
        while self.segments and self.segments[-1].start > end:
            self.segments.pop().close()
        self.set_end(end)

    def sync_names(self) -> None:
        """Make durable which files there are."""
        self._disk.sync_dir(self._folder)

    def restart_step(self, offset: int) -> Step:
        """The blocking step that gives up all files; `restarted` follows on the loop."""
        ready = [] if self.ready is None else [self.ready.path]
        paths = ready + [segment.path for segment in reversed(self.segments)]

        def step() -> None:
            self.delete(paths)
            with suppress(DiskFull):  # then the first append makes the file
                self._made = self._make(offset)

        return step

    def restarted(self, offset: int) -> None:
        """All files are gone; the log begins at `offset`."""
        self.close()
        self.segments.clear()
        self.ready, self._made = self._made, None
        if self.pending:
            self.pending.clear()
        self.set_end(offset)

    def remove(self, segment: Segment) -> None:
        """Close and delete one file that is no longer in `segments`."""
        segment.close()
        self._disk.remove(segment.path)

    def drop_ready(self) -> None:
        """Delete the file made ahead; a clean stop leaves none behind."""
        if self.ready is not None:
            ready, self.ready = self.ready, None
            self.remove(ready)

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
        if self.ready is not None:
            self.ready.close()
