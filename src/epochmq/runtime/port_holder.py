"""Who holds a listening port: read from /proc, for an error message that helps."""

import os
from pathlib import Path

_LISTEN = "0A"


def describe_holder(port: int, proc: str = "/proc") -> str:
    """'process 4711 (java)', or '' when it cannot be told (no /proc, another user's process)."""
    inodes = _listening_inodes(port, proc)
    if not inodes:
        return ""
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for pid in _pids(proc):
        if _holds(f"{proc}/{pid}/fd", wanted):
            return f"process {pid} ({_name(pid, proc)})"
    return ""


def _listening_inodes(port: int, proc: str) -> set[str]:
    """Inodes of sockets listening on `port`; lines of net/tcp: sl local rem st ... inode."""
    found: set[str] = set()
    for table in ("tcp", "tcp6"):
        for line in _lines(f"{proc}/net/{table}")[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                if int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


def _pids(proc: str) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(proc) if name.isdigit())
    except OSError:
        return []


def _holds(directory: str, wanted: set[str]) -> bool:
    try:
        names = os.listdir(directory)
    except OSError:
        return False
    for name in names:
        try:
            if os.readlink(f"{directory}/{name}") in wanted:
                return True
        except OSError:
            continue  # closed in the meantime
    return False


def _name(pid: int, proc: str) -> str:
    return " ".join(_lines(f"{proc}/{pid}/comm")) or "?"
