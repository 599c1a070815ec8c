"""Files that `mqadmin` writes: bodies of messages, reports, exports."""

import os
import re
import stat
import tempfile
from pathlib import Path

from epochmq.base.errors import EnvironmentFault

_NAME_CHARS_MAX = 200
_odd = re.compile(r"[^0-9A-Za-z@#:._-]")


def own_directory(name: str) -> Path:
    """Return a directory below the system's directory for temporary files, after creating it.

    It is the user's alone: in one that all may write, a link could lead elsewhere. RocketMQ's tool
    uses one for all users.

    Raises:
        EnvironmentFault: the directory belongs to somebody else.
    """
    directory = Path(tempfile.gettempdir(), f"rocketmq-{os.getuid()}", name)
    for each in (directory.parent, directory):
        each.mkdir(mode=0o700, exist_ok=True)
        found = each.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise EnvironmentFault(f"{each} is not a directory of yours; remove it")
    return directory


def plain_name(text: str) -> str:
    """Return a name for a file from what a stranger chose, such as the id of a client."""
    return _odd.sub("_", text).lstrip(".")[:_NAME_CHARS_MAX] or "_"


def write_export(path: Path, text: str) -> None:
    """Write `text` to a file, and create its directory.

    Raises:
        EnvironmentFault: the file cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise EnvironmentFault(
            f"{path} cannot be written: {error.strerror}; name another place"
        ) from None
