"""File access for tables, on local disks or in an object store (anything that fsspec supports).

Credentials come from the environment only (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION, AWS_ENDPOINT_URL ...): on a command line every process could read them.
"""

import errno
import hashlib
import io
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from epochmq.base.errors import DiskFull, EnvironmentFault, EpochError, UsageError
from epochmq.base.needs import need

_BLOCK_BYTES = 4 << 20
_NO_BUCKET = ("NoSuchBucket", "NO_SUCH_BUCKET")
_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_TEXTS = ("No space left on device", "Disk quota exceeded", "database or disk is full")


def is_local(uri: str) -> bool:
    """Return whether `uri` is a local path."""
    return "://" not in uri or uri.startswith("file://")


def local_path(uri: str) -> Path:
    """Return the absolute path of a local `uri`."""
    return Path(uri.removeprefix("file://")).absolute()


def normal(uri: str) -> str:
    """Normalise the location of a table; raises `UsageError` for an empty one."""
    if not uri.strip():
        raise UsageError("a table needs a place: a directory, or a URL like s3://bucket/path")
    return str(local_path(uri)) if is_local(uri) else uri.rstrip("/")


@contextmanager
def clear_errors(where: str) -> Iterator[None]:
    """Convert errors such as a full disk, a missing right or an unreachable store to one clear
    line.
    """
    try:
        yield
    except Exception as error:
        if _is_full(error):
            raise DiskFull(
                f"no space is left at {where}: make room and run the same command again;"
                " what was committed stays, the current batch is repeated"
            ) from error
        if isinstance(error, PermissionError):
            raise EnvironmentFault(f"{where}: not allowed to write there") from error
        if not is_local(where) and _is_missing(error):
            raise EnvironmentFault(
                f"{where}: there is no such bucket or object; create the bucket, or check its name"
                " and the endpoint (AWS_ENDPOINT_URL)"
            ) from error
        raise


def _is_full(error: BaseException) -> bool:
    if isinstance(error, DiskFull):
        return False
    number = getattr(error, "errno", None)
    return number in _FULL or any(text in str(error) for text in _FULL_TEXTS)


def _is_missing(error: BaseException) -> bool:
    """Return whether an object store reports that a bucket or an object does not exist."""
    if isinstance(error, EpochError):
        return False
    return isinstance(error, FileNotFoundError) or any(t in str(error) for t in _NO_BUCKET)


class HashedFile(io.RawIOBase):
    """A file that is written sequentially, and the SHA-256 of the bytes written."""

    def __init__(self, file: Any) -> None:
        super().__init__()
        self._file = file
        self._hash = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        written = self._file.write(data)
        return len(memoryview(data).cast("B")) if written is None else int(written)

    def tell(self) -> int:
        return int(self._file.tell())

    def flush(self) -> None:
        self._file.flush()

    def sha256(self) -> str:
        """Return the SHA-256 in hexadecimal of all bytes written so far."""
        return self._hash.hexdigest()


class Storage:
    """The data files under one root; `extra` of the distribution installs what it needs."""

    def __init__(self, root: str, extra: str = "lake") -> None:
        self.root = normal(root)
        self._extra = extra
        self.local = is_local(self.root)
        self._fs: Any = None

    @property
    def fs(self) -> Any:
        """fsspec's file system, created on first use, so that this object can be pickled to a
        task.
        """
        if self._fs is None:
            fsspec = need("fsspec", self._extra)
            scheme = "file" if self.local else self.root.partition("://")[0]
            self._fs = fsspec.filesystem(scheme, **_options(scheme))
        return self._fs

    def url(self, path: str) -> str:
        """Return the full name of a relative `path`."""
        return f"{self.root}/{path}"

    def exists(self, path: str) -> bool:
        """Return whether there is a file or a directory."""
        self.fs.invalidate_cache()
        return bool(self.fs.exists(self.url(path)))

    def is_empty(self) -> bool:
        """Return whether the root does not exist or is empty."""
        self.fs.invalidate_cache()
        if not self.fs.exists(self.root):
            return True
        return not self.fs.ls(self.root, detail=False)

    @contextmanager
    def create(self, path: str) -> Iterator[Any]:
        """Open a new file for writing; a local file is synced to disk at the end."""
        with clear_errors(self.root):
            if not self.local:
                with self.fs.open(self.url(path), "wb") as out:
                    yield out
                return
            target = Path(self.url(path))
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as file:
                yield file
                file.flush()
                # A commit names this file, so the file must be on disk before the commit.
                os.fsync(file.fileno())
            sync_directory(target.parent)

    def write_whole(self, path: str, data: bytes | memoryview) -> None:
        """Write a file that has either all of `data` or does not exist, whenever the process dies.

        An interrupted call may leave a draft, whose name begins with a dot.
        """
        if not self.local:
            with clear_errors(self.root):
                self.fs.pipe_file(self.url(path), bytes(data))
            return
        folder, _, name = path.rpartition("/")
        draft = f"{folder}/.{name}"
        with self.create(draft) as file:
            file.write(data)
        os.replace(self.url(draft), self.url(path))
        sync_directory(Path(self.url(folder)))

    def sha256(self, path: str) -> str:
        """Return the SHA-256 of a file's bytes in hexadecimal."""
        found = hashlib.sha256()
        for block in self.blocks(path):
            found.update(block)
        return found.hexdigest()

    def find(self) -> dict[str, tuple[int, float]]:
        """Return relative path -> (bytes, time of last change in seconds) of every Parquet file."""
        self.fs.invalidate_cache()
        base = str(self.fs._strip_protocol(self.root))
        found = self.fs.find(base, detail=True)
        return {
            name[len(base) :].lstrip("/"): (int(each["size"] or 0), _changed(each))
            for name, each in found.items()
            if name.endswith(".parquet")
        }

    def sizes(self, directory: str) -> dict[str, int]:
        """Return name -> bytes of the files in a directory; nothing for one that is missing."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.ls(self.url(directory), detail=True)
        except FileNotFoundError:
            return {}
        files = (each for each in found if each["type"] == "file")
        return {each["name"].rpartition("/")[2]: int(each["size"] or 0) for each in files}

    def directories(self, directory: str) -> list[str]:
        """Return the sorted names of the directories in a directory; `""` means the root."""
        self.fs.invalidate_cache()
        try:
            found = self.fs.ls(self.url(directory).rstrip("/"), detail=True)
        except FileNotFoundError:
            return []
        names = (each["name"].rstrip("/") for each in found if each["type"] == "directory")
        return sorted(name.rpartition("/")[2] for name in names)

    def replace(self, path: str, content: Iterator[bytes]) -> None:
        """Replace a file, or create it; the old bytes are kept as `<path>.damaged-<ms>`."""
        draft = f"{path}.restored"
        with self.create(draft) as file:
            for block in content:
                file.write(block)
        with clear_errors(self.root):
            if self.exists(path):
                self.set_aside(path)
            self.fs.mv(self.url(draft), self.url(path))
        if self.local:
            sync_directory(Path(self.url(path)).parent)

    def set_aside(self, path: str) -> None:
        """Rename a damaged file, so that nothing reads it and its bytes are kept."""
        self.fs.mv(self.url(path), self.url(f"{path}.damaged-{time.time_ns() // 10**6}"))

    def blocks(self, path: str) -> Iterator[bytes]:
        """Yield a file's bytes in blocks."""
        with clear_errors(self.root), self.fs.open(self.url(path), "rb") as file:
            while block := file.read(_BLOCK_BYTES):
                yield block

    def remove(self, path: str) -> None:
        """Delete a file; a missing file is not an error."""
        try:
            self.fs.rm_file(self.url(path))
        except FileNotFoundError:
            pass


def _options(scheme: str) -> dict[str, Any]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return {"endpoint_url": endpoint} if scheme in ("s3", "s3a") and endpoint else {}


def _changed(each: dict[str, Any]) -> float:
    when = each.get("mtime", each.get("LastModified", 0.0))
    return float(when.timestamp()) if hasattr(when, "timestamp") else float(when)


def sync_directory(path: Path) -> None:
    """Sync a directory to disk; a new name is durable only after that."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
