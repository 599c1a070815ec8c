"""One server process: started, awaited by polling, stopped or killed, its log kept."""

from __future__ import annotations

import atexit
import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

_POLL_S = 0.02
_running: set[Process] = set()


class NotReadyError(Exception):
    """A process died or did not become ready; the message carries the end of its log."""


def wait_until(condition: Callable[[], bool], timeout_s: float, what: str) -> None:
    """Poll until ``condition`` holds; sleeping a fixed time instead would be slow and flaky."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {timeout_s} s")
        time.sleep(_POLL_S)


def is_listening(port: int, host: str = "127.0.0.1") -> bool:
    """Whether somebody accepts connections on the port."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.settimeout(1)
        return probe.connect_ex((host, port)) == 0


class Process:
    """A server process whose output goes to a file; a new start appends to the same file."""

    def __init__(
        self, name: str, argv: Sequence[str | Path], log: Path, env: Mapping[str, str]
    ) -> None:
        self.name = name
        self.argv = [str(arg) for arg in argv]
        self.log = log
        self.env = {**os.environ, **env}
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The running process's id."""
        if self._child is None:
            raise RuntimeError(f"{self.name} was never started")
        return self._child.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self._child is not None and self._child.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit code, or minus the signal; None while it runs."""
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        """Start it; it is not ready yet."""
        if self.is_alive:
            raise RuntimeError(f"{self.name} runs already")
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.env,
                cwd=self.log.parent,
                start_new_session=True,
            )
        _running.add(self)

    def wait_ready(self, ready: Callable[[], bool], timeout_s: float) -> None:
        """Wait for ``ready``; a process that dies meanwhile is reported at once."""

        def ready_or_dead() -> bool:
            return not self.is_alive or ready()

        try:
            wait_until(ready_or_dead, timeout_s, f"{self.name} ready")
        except TimeoutError as late:
            raise NotReadyError(f"{late}\n{self.log_tail()}") from None
        if not self.is_alive:
            raise NotReadyError(f"{self.name} exited {self.returncode}\n{self.log_tail()}")

    def log_tail(self, lines: int = 30) -> str:
        """The end of the log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])

    def stop(self, timeout_s: float = 30) -> int | None:
        """Ask it to stop (SIGTERM) and wait; after the time is up it is killed. The exit code."""
        self._end(signal.SIGTERM, timeout_s)
        return self.returncode

    def kill9(self) -> None:
        """The crash: no handler runs, the page cache survives."""
        self._end(signal.SIGKILL, 30)

    def pause(self) -> None:
        """Stop it where it is (SIGSTOP)."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def _end(self, number: signal.Signals, timeout_s: float) -> None:
        if self._child is not None and self.is_alive:
            self._child.send_signal(number)
            try:
                self._child.wait(timeout_s)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
        _running.discard(self)

    def cpu_seconds(self) -> float:
        """CPU time the process has used so far (user and system)."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def rss_bytes(self) -> int:
        """Resident memory now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize()


@atexit.register
def _end_all() -> None:
    for process in list(_running):
        process.kill9()
