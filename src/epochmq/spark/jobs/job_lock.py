"""One job at a time for one checkpoint: a lock file that the kernel frees when its owner dies."""

import fcntl
import json
import os
import socket
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from epochmq.base.errors import EnvironmentFault, UsageError

FILE = "lock"


class CheckpointInUse(EnvironmentFault):
    """Another job works with this checkpoint."""


class CheckpointLock:
    """`with CheckpointLock(directory, "archive"): ...`"""

    def __init__(self, directory: Path, job: str) -> None:
        self._path = directory / FILE
        self._job = job
        self._file: IO[str] | None = None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = self._path.open("a+")
        except OSError as error:
            raise UsageError(
                f"the checkpoint directory {self._path.parent} cannot be used: {error.strerror}"
            ) from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            said = _owner(file.read(4096))
            file.close()
            raise CheckpointInUse(
                f"{self._path.parent} is in use by {said}: wait for it, stop it, or name another"
                " checkpoint and table"
            ) from None
        self._file = file
        file.truncate(0)
        file.write(json.dumps(self._me()))
        file.flush()
        return self

    def _me(self) -> dict[str, object]:
        return {
            "job": self._job,
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._file is not None:
            self._file.close()  # and with it the lock


def _owner(text: str) -> str:
    try:
        found = json.loads(text)
        return (
            f"job {found['job']}, process {found['pid']} on {found['host']} since {found['since']}"
        )
    except (ValueError, KeyError, TypeError):
        return "another job"
