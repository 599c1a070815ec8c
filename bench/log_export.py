"""Exporting a broker's whole log as a learner: MB/s, and CPU seconds a GB of both ends.

`python -m bench.log_export --gib 1`. The floors are as many bytes by sendfile, and nothing else.
The first export of each kind drops what it gets, the second one writes a store directory; messages
have 16 KiB, so that filling the log does not take long.
"""

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.compat.peers.group import Group, Server
from tests.compat.peers.process import wait_until

from bench import copy_floor, load, peers
from bench.replicated import _log_bytes as log_bytes
from bench.replicated import group_of
from bench.rows import Row
from epochmq.spark.log_copy import export_log
from epochmq.spark.log_export import BLOCK_BYTES, open_export

_GIB = 1 << 30
_CONFIRMED_S = 30.0
HEAD = "| | GiB | seconds | MB/s | broker CPU s/GB | reader CPU s/GB |\n|---|---|---|---|---|---|"


def table(kinds: list[str], gib: float, rounds: int = 3) -> str:
    """A row an export, and the floor's in between: noise strikes both."""
    size = int(gib * _GIB)
    lines = [HEAD]
    for kind in kinds:
        peers.free_page_cache()
        with group_of(kind, 1) as group:
            master = group.master()
            assert master is not None
            _fill(master, size)
            lines.append(_idle(kind, master))
            for _ in range(rounds):
                lines += _exports(kind, group, master)
                lines.append(_floor_dropped(size))
                lines.append(copy_floor.row(size).replace("| floor |", "| floor, to files |"))
                print("\n".join(lines[-4:]), flush=True)
    return "\n".join(lines)


def _fill(master: Server, size: int) -> None:
    row = Row("fill", "send", 16, 16, size=16 * 1024)
    while log_bytes(master) < size:
        load.run(row, master.port, master.process.pid, warm_s=0, seconds=1)


def _idle(kind: str, master: Server) -> str:
    """What the broker takes by itself; a long export contains more of it."""
    time.sleep(2)  # the writing of what was filled in
    before = master.process.cpu_seconds()
    time.sleep(5)
    return f"| {kind}, idle, a second | | | | {(master.process.cpu_seconds() - before) / 5:.3f} | |"


def _exports(kind: str, group: Group, master: Server) -> list[str]:
    names = group.namesrv_addr, group.broker_name

    def drop() -> int:
        return sum(len(piece.data) for piece in open_export(*names).ranges())

    def copy() -> int:
        with tempfile.TemporaryDirectory(prefix="bench-export-") as folder:
            return export_log(*names, Path(folder) / "copy").copied_bytes

    end = log_bytes(master)
    wait_until(lambda: drop() >= end, _CONFIRMED_S, "all is confirmed")
    return [_row(f"{kind}, dropped", master, drop), _row(f"{kind}, to a directory", master, copy)]


def _row(name: str, master: Server, work: Callable[[], int]) -> str:
    before, own, began = master.process.cpu_seconds(), _cpu(), time.monotonic()
    size = work()
    seconds = time.monotonic() - began
    broker = (master.process.cpu_seconds() - before) / (size / 1e9)
    reader = (_cpu() - own) / (size / 1e9)
    cells = (f"{size / _GIB:.2f}", f"{seconds:.2f}", f"{size / 1e6 / seconds:,.0f}")
    return f"| {name} | {' | '.join(cells)} | {broker:.2f} | {reader:.2f} |"


def _floor_dropped(size: int) -> str:
    """sendfile to a process that reads into one buffer again and again."""
    with tempfile.NamedTemporaryFile(prefix="bench-export-") as log:
        copy_floor._fill(Path(log.name), size)
        near, far = copy_floor._pair()
        child = os.fork()
        if not child:
            near.close()
            buffer = bytearray(BLOCK_BYTES)
            while far.recv_into(buffer):
                pass
            os._exit(0)
        far.close()
        own, began = _cpu(), time.monotonic()
        with near:
            copy_floor._send(near, Path(log.name), size)
        _, _, used = os.wait4(child, 0)
        seconds, gigabytes = time.monotonic() - began, size / 1e9
        sender, reader = (_cpu() - own) / gigabytes, (used.ru_utime + used.ru_stime) / gigabytes
        cells = (f"{size / _GIB:.2f}", f"{seconds:.2f}", f"{size / 1e6 / seconds:,.0f}")
        return f"| floor, dropped | {' | '.join(cells)} | {sender:.2f} | {reader:.2f} |"


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.log_export", description=__doc__)
    parser.add_argument("--gib", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer", choices=["java", "none"], default="java")
    args = parser.parse_args()
    kinds = ["epochmq"] + (["java"] if args.peer == "java" else [])
    print(table(kinds, args.gib, args.rounds))


if __name__ == "__main__":
    main()
