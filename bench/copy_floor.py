"""The floor of catching up: bytes of a cached log by sendfile into mapped files, and nothing else.

Two processes with one system call for each 256 KiB; in C it costs the same, since both ends spend
their time in the kernel (user time 0.01 s a GiB). No checks, no queues, no epochs.
"""

import mmap
import os
import resource
import socket
import tempfile
import time
from pathlib import Path

BATCH = 256 * 1024
FILE_BYTES = 1 << 30


def row(size: int) -> str:
    """A row as `bench.replicated.catch_up` has them, for `size` bytes."""
    with tempfile.TemporaryDirectory(prefix="bench-copy-") as name:
        folder = Path(name)
        log = folder / "log"
        _fill(log, size)
        near, far = _pair()
        child = os.fork()
        if not child:
            near.close()
            _receive(far, folder, size)
            os._exit(0)
        far.close()
        began, before = time.monotonic(), _cpu(resource.RUSAGE_SELF)
        _send(near, log, size)
        near.shutdown(socket.SHUT_WR)
        _, status, used = os.wait4(child, 0)
        seconds, gigabytes = time.monotonic() - began, size / 1e9
        if status:
            raise SystemExit("the floor's receiver failed")
        master = (_cpu(resource.RUSAGE_SELF) - before) / gigabytes
        follower = (used.ru_utime + used.ru_stime) / gigabytes
        cells = (f"{size / (1 << 30):.1f}", f"{seconds:.1f}", f"{size / 1e6 / seconds:,.0f}")
        return f"| floor | {' | '.join(cells)} | {master:.2f} | {follower:.2f} |"


def _pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
    return near, far


def _cpu(who: int) -> float:
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def _fill(log: Path, size: int) -> None:
    block = os.urandom(1 << 20)
    with log.open("wb") as out:
        for _ in range(size >> 20):
            out.write(block)


def _send(near: socket.socket, log: Path, size: int) -> None:
    with log.open("rb") as file:
        at = 0
        while at < size:
            at += os.sendfile(near.fileno(), file.fileno(), at, min(BATCH, size - at))


def _receive(far: socket.socket, folder: Path, size: int) -> None:
    done = 0
    while done < size:
        fd = os.open(folder / f"copy{done:020}", os.O_CREAT | os.O_RDWR)
        os.posix_fallocate(fd, 0, FILE_BYTES)
        with mmap.mmap(fd, FILE_BYTES) as mapped, memoryview(mapped) as view:
            at = 0
            while at < FILE_BYTES and done < size:
                got = far.recv_into(view[at : at + BATCH])
                if not got:
                    os._exit(1)
                at += got
                done += got
        os.close(fd)
