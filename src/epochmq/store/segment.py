"""A segment: one commit log file of fixed size, named by the offset of its first byte."""

from epochmq.base.errors import EnvironmentFault, StoreDamaged
from epochmq.base.ports import Buffer, Disk, File
from epochmq.store.draft import file_name


class Segment:
    """Bytes `[start, end)` of the log in one file."""

    __slots__ = ("_view", "data", "end", "file", "path", "start")

    def __init__(self, path: str, start: int, file: File, size: int) -> None:
        self.path = path
        self.start = start
        self.end = start + size
        self.file = file
        self._view: memoryview | None = None
        self.data: list[tuple[int, int]] = []
        """Ranges that were not all zero when the file was loaded."""

    @classmethod
    def create(cls, disk: Disk, folder: str, start: int, size: int, *, reserve: bool) -> "Segment":
        """Create the file that starts at `start`, durably; if there is no space, leave no file."""
        path = f"{folder}/{file_name(start)}"
        file = disk.open(path, create_size=size)
        try:
            if reserve:
                file.allocate(0, size)
            file.sync()
            disk.sync_dir(folder)
        except EnvironmentFault:
            file.close()
            disk.remove(path)
            raise
        return cls(path, start, file, size)

    @classmethod
    def load(cls, disk: Disk, folder: str, name: str, size: int) -> "Segment":
        """Open an existing file; raise `StoreDamaged` if its name or size is not as expected."""
        path = f"{folder}/{name}"
        if len(name) != 20 or not name.isdecimal():
            raise StoreDamaged(
                f"{path} is not a commit log file (20 digits expected); move it away"
            )
        found = disk.size(path)
        if found != size:
            raise StoreDamaged(
                f"{path} has {found} bytes, but mappedFileSizeCommitLog is {size};"
                " set that option as it was when the store was written, or restore the file"
            )
        start = int(name)
        if start % size:
            raise StoreDamaged(f"{path} does not start at a multiple of {size}; move it away")
        segment = cls(path, start, disk.open(path), size)
        segment.data = segment.file.data_ranges()
        return segment

    @property
    def view(self) -> memoryview:
        """The file's bytes; the file stays mapped after the first use."""
        view = self._view
        if view is None:
            view = self._view = self.file.view()
        return view

    def forget_view(self) -> None:
        """Drop the mapping; the next reader maps the file again."""
        self._view = None
        self.file.forget_view()

    def write(self, offset: int, data: Buffer) -> None:
        """Write `data` at log offset `offset`."""
        self.file.write(offset - self.start, data)

    def close(self) -> None:
        """Close the file; views that readers hold stay valid until the readers release them."""
        self._view = None
        self.file.close()
