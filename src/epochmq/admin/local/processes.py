"""Starts and stops background processes, which are recorded in files with their process ids.

After a crash or a reboot, a process id may belong to another process. The file therefore has the
start time as well, and both must match. The files have JSON
`{"pid": 4711, "started": "<ticks since boot, or empty where /proc is missing>"}`.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

STOP_S = 20.0
_POLL_S = 0.02
_children: dict[int, subprocess.Popen[bytes]] = {}
"""Children of this process; they stay zombies until they are polled."""


def start(
    argv: Sequence[str], log: Path, pid_file: Path, env: Mapping[str, str] | None = None
) -> int:
    """Start `argv` in a new session, with output appended to `log`; returns the process id.

    `env` are environment variables besides those of this process.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output, _stop_signals_deferred():
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(env or {})},
            start_new_session=True,  # Ctrl-C reaches the command only
        )
        _children[child.pid] = child
        remember(pid_file, child.pid)
    return child.pid


@contextlib.contextmanager
def _stop_signals_deferred() -> Iterator[None]:
    """Handle SIGINT and SIGTERM after the block, so that no process is started without its file.

    Such a process would never be stopped. Signals are handled in the main thread only.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for came_number in came:
            signal.raise_signal(came_number)


def remember(pid_file: Path, pid: int) -> None:
    """Write `pid_file` for a running process."""
    temporary = pid_file.with_suffix(".tmp")
    temporary.write_text(json.dumps({"pid": pid, "started": _started(pid)}))
    temporary.replace(pid_file)


def running(pid_file: Path) -> int | None:
    """Return the process id in `pid_file`, if that process still runs."""
    try:
        found = json.loads(pid_file.read_text())
        pid, started = int(found["pid"]), str(found["started"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return pid if is_alive(pid) and _started(pid) == started else None


def is_paused(pid: int) -> bool:
    """Return whether the process was stopped by SIGSTOP; True where that cannot be seen."""
    stat = _stat(pid)
    return stat is None or stat[0] == "T"


def is_alive(pid: int) -> bool:
    """Return whether the process exists and is not a zombie."""
    _reap(pid)
    stat = _stat(pid)
    if stat is not None:
        return stat[0] not in "ZX"
    try:
        os.kill(pid, 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return not Path("/proc/self/stat").exists()


def stop(pid: int, timeout_s: float = STOP_S) -> bool:
    """Send SIGTERM, then SIGKILL after `timeout_s`; returns whether SIGTERM was enough."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    if wait_gone(pid, timeout_s):
        return True
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    wait_gone(pid, timeout_s)
    return False


def stop_all(pids: Sequence[int], timeout_s: float = STOP_S) -> None:
    """Stop all processes concurrently, as by `stop`."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
            os.kill(pid, signal.SIGCONT)  # a paused process could not end
    for pid in pids:
        stop(pid, timeout_s)


def wait_gone(pid: int, timeout_s: float) -> bool:
    """Wait until a process has ended, child or not; returns False when it still runs."""
    if hasattr(os, "pidfd_open"):
        try:
            handle = os.pidfd_open(pid)
        except OSError:
            return True
        try:
            ended = bool(select.select([handle], [], [], timeout_s)[0])
        finally:
            os.close(handle)
        _reap(pid)
        return ended
    deadline = time.monotonic() + timeout_s
    while is_alive(pid):
        _reap(pid)
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def cpu_seconds(pid: int) -> float:
    """Return the user and system CPU time of a process in seconds; 0 when it is unknown."""
    stat = _stat(pid)
    return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK") if stat else 0.0


def memory_bytes(pid: int) -> int:
    """Return the resident memory in bytes; 0 when it is unknown."""
    stat = _stat(pid)
    return int(stat[21]) * os.sysconf("SC_PAGE_SIZE") if stat else 0


def age_s(pid: int) -> float:
    """Return the seconds since a process started; 0 when the start is unknown."""
    stat = _stat(pid)
    if stat is None:
        return 0.0
    return max(0.0, time.clock_gettime(time.CLOCK_BOOTTIME) - _ticks_s(stat[19]))


def _ticks_s(text: str) -> float:
    return int(text) / os.sysconf("SC_CLK_TCK")


def _reap(pid: int) -> None:
    child = _children.get(pid)
    if child is not None and child.poll() is not None:
        del _children[pid]


def _started(pid: int) -> str:
    stat = _stat(pid)
    return stat[19] if stat else ""


def _stat(pid: int) -> list[str] | None:
    """Return the fields of /proc/PID/stat from the third (state) on; the name may contain
    anything.
    """
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
