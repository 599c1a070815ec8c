"""Small files in memory, as much of the Disk port as tables need."""

from epochmq.base.ports import Disk


class FakeDisk(Disk):
    def __init__(self, files: dict[str, bytes] | None = None) -> None:
        self.files = dict(files or {})
        self.writes: list[str] = []

    def read_file(self, path: str) -> bytes | None:
        return self.files.get(path)

    def write_file(self, path: str, data: bytes, *, backup: bool = False) -> None:
        if backup and path in self.files:
            self.files[f"{path}.bak"] = self.files[path]
        self.files[path] = bytes(data)
        self.writes.append(path)

    def remove(self, path: str) -> None:
        self.files.pop(path, None)
