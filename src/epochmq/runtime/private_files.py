"""Small files with secrets, which only their owner may read."""

import os
import stat
from contextlib import suppress
from pathlib import Path

from epochmq.base.errors import ConfigError

PRIVATE_BYTES_MAX = 64 * 1024
_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def read_private(path: str, what: str) -> bytes:
    """Return the content of a file with secrets; `what` names it in errors.

    Raises `ConfigError`: the file cannot be read, is too long, or others than its owner have access
    to it.
    """
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read(PRIVATE_BYTES_MAX + 1)
    except OSError as error:
        raise ConfigError([f"cannot read {what} {path}: {error.strerror}"]) from None
    if mode & _OTHERS:
        text = f"others than its owner have access to {what} {path}"
        raise ConfigError([f"{text}; change that: chmod 600 {path}"])
    if len(data) > PRIVATE_BYTES_MAX:
        raise ConfigError([f"{what} {path} is longer than {PRIVATE_BYTES_MAX} bytes"])
    return data


def create_private(path: str, data: bytes, what: str) -> None:
    """Make a file with secrets, complete and synced or not at all; an existing file stays.

    Raises `ConfigError` if the file cannot be made.
    """
    draft = f"{path}.{os.getpid()}.tmp"
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
    except OSError as error:
        raise ConfigError([f"cannot make {what} {path}: {error.strerror}"]) from None
    finally:
        with suppress(OSError):
            Path(draft).unlink()
