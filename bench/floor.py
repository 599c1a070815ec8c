"""Single sends beside the floor: the same work as one epoll loop in C (bench/floor.c).

How far Python's loop, limits, replicas and refusals are from what the machine can do on the same
day with the same bytes; the broker that is not measured is stopped by a signal.
"""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from tests.compat.peers.ports import free_port

from bench import load, peers, rows
from bench.load import CACHE, HERE, Figures
from bench.rows import Row

NATIVE = HERE.parent / "src" / "epochmq" / "store" / "native"
SOURCES = ("crc.c", "properties.c", "json.c")


def table(runs: int, seconds: float) -> str:
    """CPU a message of both, and how many times the floor ours is."""
    found: dict[tuple[Row, str], list[Figures]] = {}
    singles = [row for row in rows.SENDS if row.mode == "send"]
    with peers.clusters(["epochmq"], sync_flush=False) as made, _floor() as (port, pid):
        ours = made["epochmq"]
        load.run(rows.WARM_UP, ours.broker_port, ours.broker.pid, warm_s=0, seconds=2)
        peers.pause(ours)
        for row in singles:
            for _ in range(runs):
                peers.free_page_cache()
                peers.resume(ours)
                time.sleep(1)
                one = load.run(row, ours.broker_port, ours.broker.pid, warm_s=1, seconds=seconds)
                peers.pause(ours)
                found.setdefault((row, "epochmq"), []).append(one)
                peers.free_page_cache()
                os.kill(pid, signal.SIGCONT)
                one = load.run(row, port, pid, warm_s=1, seconds=seconds)
                os.kill(pid, signal.SIGSTOP)
                found.setdefault((row, "floor"), []).append(one)
    head = "| row | EpochMQ msg/s | floor msg/s | EpochMQ CPU us | floor CPU us | times |\n"
    lines = [_line(row, found[row, "epochmq"], found[row, "floor"]) for row in singles]
    return f"{head}|---|---|---|---|---|---|\n" + "\n".join(lines)


def _line(row: Row, ours: list[Figures], floor: list[Figures]) -> str:
    mine, its = (median(one.cpu_us for one in each) for each in (ours, floor))
    rates = (f"{median(one.rate for one in each):,.0f}" for each in (ours, floor))
    return f"| {row.name} | {' | '.join(rates)} | {mine:.2f} | {its:.2f} | {mine / its:.2f} |"


@contextmanager
def _floor() -> Iterator[tuple[int, int]]:
    """The floor's port and process, stopped by SIGSTOP until its turn."""
    folder, port = Path(tempfile.mkdtemp(prefix="bench-floor-")), free_port()
    process = subprocess.Popen(
        [_build(), str(port), str(folder)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise SystemExit("the floor did not start")
        os.kill(process.pid, signal.SIGSTOP)
        yield port, process.pid
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _build() -> Path:
    """The floor, compiled now: it is made of the native code's sources."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit("no C compiler: install gcc to run the benchmarks")
    CACHE.mkdir(parents=True, exist_ok=True)
    target = CACHE / "floor"
    flags = ["-O2", "-march=native", "-I", str(NATIVE)]
    sources = [HERE / "floor.c", *(NATIVE / name for name in SOURCES)]
    subprocess.run([compiler, *flags, "-o", target, *sources], check=True)
    return target
