"""Upstream's ``mqadmin`` kept running, so that many commands cost one JVM start."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from ..peers.java import java_argv, make_home
from .build import mqadmin_classes

_END = "--- end of command ---"


class MqAdmin:
    """``run`` takes a command as a shell would (no blanks within a word) and gives its output."""

    def __init__(self, namesrv: str) -> None:
        classes, jars = mqadmin_classes()
        self._home = tempfile.TemporaryDirectory(prefix="mqadmin-")
        home = make_home(Path(self._home.name))
        argv = java_argv(home, f"{classes}{os.pathsep}{jars}/*", "tools", "Admin")
        self._child = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "HOME": str(home), "NAMESRV_ADDR": namesrv},
            text=True,
        )

    def run(self, command: str) -> str:
        """What the command printed (both streams)."""
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._child.stdin.write(command + "\n")
        self._child.stdin.flush()
        lines: list[str] = []
        for line in self._child.stdout:
            if line.strip() == _END:
                break
            lines.append(line)
        else:
            raise AssertionError(f"mqadmin ended at {command!r}:\n{''.join(lines)}")
        return "".join(lines).removesuffix("\n")

    def table(self, command: str) -> list[list[str]]:
        """The words of each row below the header, whose names begin with ``#``."""
        output = self.run(command)
        rows = output.splitlines()
        heads = [i for i, row in enumerate(rows) if row.startswith("#")]
        assert heads, output
        return [row.split() for row in rows[heads[-1] + 1 :] if row.strip()]

    def close(self) -> None:
        """End the JVM."""
        self._child.kill()
        self._child.communicate()
        self._home.cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
