"""The commit log: a sequence of files of equal size that are written at the end only."""

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
    """The open files (segments) of the commit log in order; `end` is the next write position."""

    def __init__(self, disk: Disk, options: StoreOptions) -> None:
        self._disk = disk
        self._folder = options.commit_log_dir
        self._reserve = options.preallocate
        self.file_bytes = options.commit_log_file_bytes
        self.segments: list[Segment] = []
        self.ready: Segment | None = None
        """The next file, created before it is needed."""
        self._nameless: Segment | None = None
        """A file created ahead whose directory entry is not synced yet: a power cut may lose it."""
        self._made: Segment | None = None
        """The first file of a log that was restarted at another offset."""
        self.written = WrittenBlocks()
        """Checksums of the blocks that were written since the start."""
        self.end = 0
        self.active_end = 0
        """End of the file being written; equal to `end` when the next file must be opened."""
        self.pending: bytearray | None = bytearray() if options.transient_pool else None
        """Appended bytes that are not written to the file yet (transientStorePoolEnable)."""

    def load(self) -> None:
        """Open all files; `end` is the end of the last file until recovery lowers it.

        Raises `StoreDamaged` if a file is missing between others, or has a wrong name or size.
        """
        folder = self._folder
        names = [n for n in self._disk.list(folder) if not self._disk.is_dir(f"{folder}/{n}")]
        if names and self._disk.size(f"{folder}/{names[-1]}") == 0:
            self._disk.remove(f"{folder}/{names.pop()}")  # a crash interrupted its creation
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
    def folder(self) -> str:
        """The folder of the log's files."""
        return self._folder

    @property
    def start(self) -> int:
        """Offset of the first byte kept; `end` if there is no file."""
        return self.segments[0].start if self.segments else self.end

    @property
    def committed(self) -> int:
        """Offset up to which files hold the log; below `end` only with a transient pool."""
        return self.end - len(self.pending) if self.pending else self.end

    def set_end(self, end: int) -> None:
        """Set the write position."""
        self.end = end
        self.active_end = self.segments[-1].end if self.segments else end

    def find(self, offset: int) -> Segment | None:
        """Return the file that holds byte `offset`, or None."""
        if not self.segments:
            return None
        index = (offset - self.segments[0].start) // self.file_bytes
        return self.segments[index] if 0 <= index < len(self.segments) else None

    def write(self, data: Buffer) -> None:
        """Append `data` to the active file, which must have room for it."""
        if self.pending is None:
            self._put(self.end, data)
        else:
            self.pending += data
        self.end += len(data)

    def write_raw(self, data: Buffer) -> None:
        """Append bytes of a master's log to the active file, bypassing the transient pool."""
        self._put(self.end, data)
        self.end += len(data)

    def _put(self, offset: int, data: Buffer) -> None:
        """Write `data`, or zeros on failure: refused bytes must not reappear after a crash."""
        segment = self.segments[-1]
        try:
            segment.write(offset, data)
        except (DiskFull, DiskFailed):
            self.written.clear()
            try:
                segment.write(offset, bytes(len(data)))
            except OutOfResources as error:  # an allocated block may hold other bytes than zeros
                raise DiskFailed(f"what was refused cannot be erased: {error}") from error
            except DiskFull:
                pass  # unallocated blocks read as zeros
            segment.file.sync()
            raise
        self.written.add(offset, data, segment.start, segment.end)

    def commit(self) -> None:
        """Write the transient pool to the file; after an error the bytes stay in the pool."""
        if self.pending:
            self._put(self.committed, self.pending)
            self.pending.clear()

    def first_file(self) -> Callable[[], object] | None:
        """Return the step that creates the file the next append needs; None if there is room."""
        return self.make_ready if self.ready is None and self.end == self.active_end else None

    def make_ready(self) -> bool:
        """Create the next file ahead; return False if it exists. Raises `DiskFull`,
        `DiskFailed`.
        """
        if self.ready is not None:
            return False
        self.ready = self._make(self.active_end)
        return True

    def _make(self, start: int) -> Segment:
        return Segment.create(
            self._disk, self._folder, start, self.file_bytes, reserve=self._reserve
        )

    def adopt_ready(self, path: str) -> Step:
        """Use the complete, synced file at `path` as the next log file.

        Returns the step that makes the file's name durable; the caller calls `named` after that
        step. If `roll` needs the file earlier, `roll` runs the step itself.
        """
        name = file_name(self.active_end)
        self._disk.rename(path, f"{self._folder}/{name}")
        segment = Segment.load(self._disk, self._folder, name, self.file_bytes)
        self.ready = self._nameless = segment
        return self.sync_names

    def named(self) -> None:
        """Record that the names of all files are durable."""
        self._nameless = None

    def roll(self) -> None:
        """Fill the rest of the active file with a blank record and switch to the next file."""
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
        """Return `size` bytes of one file from `offset`, without a copy; None if not available."""
        segment = self.find(offset)
        if segment is None or offset + size > segment.end:
            return None
        at = offset - segment.start
        return segment.view[at : at + size]

    def between(self, low: int, high: int) -> list[Segment]:
        """Return the files that hold bytes of `[low, high)`."""
        return [s for s in self.segments if s.start < high and s.end > low]

    def cut_files(self, end: int) -> None:
        """Delete the files that start behind `end`, and set the log's end to `end`."""
        self.delete(self.behind(end))
        self.forget(end)

    def behind(self, end: int) -> list[str]:
        """Return the paths of the files that start behind `end`, in the order of deletion.

        The file created ahead is first, then the last file: a crash leaves no gap between files.
        """
        later = [segment.path for segment in reversed(self.segments) if segment.start > end]
        return [self.ready.path, *later] if later and self.ready is not None else later

    def delete(self, paths: list[str]) -> None:
        """Delete these files durably. Uses no changing state: it may run outside the event loop."""
        for path in paths:
            self._disk.remove(path)
        if paths:
            self.sync_names()  # else they may reappear behind the log's end after a crash

    def forget(self, end: int) -> None:
        """Set the log's end to `end` after the files that start behind it were deleted."""
        if self.segments and self.segments[-1].start > end and self.ready is not None:
            self.ready.close()
            self.ready = None
        while self.segments and self.segments[-1].start > end:
            self.segments.pop().close()
        self.set_end(end)

    def sync_names(self) -> None:
        """Sync the directory, so that created, renamed and deleted files are durable."""
        self._disk.sync_dir(self._folder)

    def restart_step(self, offset: int) -> Step:
        """Return the blocking step that deletes all files; call `restarted` on the loop
        afterwards.
        """
        ready = [] if self.ready is None else [self.ready.path]
        paths = ready + [segment.path for segment in reversed(self.segments)]

        def step() -> None:
            self.delete(paths)
            with suppress(DiskFull):  # then the first append creates the file
                self._made = self._make(offset)

        return step

    def restarted(self, offset: int) -> None:
        """Set the log's start and end to `offset` after all files were deleted."""
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
        """Delete the file created ahead; a clean stop keeps no such file."""
        if self.ready is not None:
            ready, self.ready = self.ready, None
            self.remove(ready)

    def close(self) -> None:
        for segment in self.segments:
            segment.close()
        if self.ready is not None:
            self.ready.close()
