"""The record of what users did with the dashboard: a line of JSON before and after each action."""

import json
import os
import threading
import time
from pathlib import Path

from epochmq.base.errors import EnvironmentFault

FILE_BYTES_MAX = 10 * 1024 * 1024
"""The file is moved to NAME.1 when it is longer; one such file is kept."""
SHOWN_MAX = 200
_TEXT_MAX = 300
_TAIL_BYTES = 256 * 1024

Row = dict[str, object]


class ActionLog:
    """An append-only file. Its methods wait for the disk: call them in a thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()

    def write(self, user: str | None, peer: str, cluster: str, action: str, result: str) -> None:
        """Write a line and sync it.

        Args:
            user: name of the user; None on a cluster without users.
            peer: address of the browser.
            cluster: name of the cluster.
            action: what is done, with what it is done to.
            result: "begun", "done", or why it failed.

        Raises:
            EnvironmentFault: the file cannot be written. An action that is not on record must not
                be carried out.
        """
        row = {
            "wall_ms": time.time_ns() // 1_000_000,
            "user": user,
            "from": peer,
            "cluster": cluster,
            "action": action[:_TEXT_MAX],
            "result": result[:_TEXT_MAX],
        }
        with self._lock:
            try:
                if self._path.exists() and self._path.stat().st_size > FILE_BYTES_MAX:
                    self._path.replace(f"{self._path}.1")
                with self._path.open("ab") as file:
                    file.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise EnvironmentFault(f"cannot write {self._path}: {error.strerror}") from None

    def latest(self, cluster: str) -> list[Row]:
        """Return the latest lines about a cluster, the newest first; damaged lines are skipped."""
        try:
            with self._path.open("rb") as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _TAIL_BYTES))
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return []
        except OSError as error:
            raise EnvironmentFault(f"cannot read {self._path}: {error.strerror}") from None
        found: list[Row] = []
        for line in reversed(lines):
            try:
                row = json.loads(line)
            except ValueError:
                continue
            if isinstance(row, dict) and row.get("cluster") == cluster and len(found) < SHOWN_MAX:
                found.append(row)
        return found
