"""Runs one load against one broker and gives its figures."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from bench.rows import Row

TOPIC = "BenchTopic"
HERE = Path(__file__).parent
CACHE = HERE.parent / ".cache" / "bench"


@dataclass(frozen=True)
class Figures:
    """Messages a second, broker CPU microseconds a message, latency in microseconds."""

    rate: float
    cpu_us: float
    p50_us: float
    p99_us: float
    errors: int
    foreign: float


def build_loadgen() -> Path:
    """The load generator, compiled once for each version of its source."""
    source = HERE / "loadgen.c"
    target = CACHE / f"loadgen-{source.stat().st_mtime_ns}"
    if target.exists():
        return target
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        raise SystemExit("no C compiler: install gcc to run the benchmarks")
    CACHE.mkdir(parents=True, exist_ok=True)
    flags = ["-O2", "-march=native", "-pthread"]
    subprocess.run([compiler, *flags, "-o", target, source, "-lm"], check=True)
    return target


def run(row: Row, port: int, pid: int, *, warm_s: float, seconds: float) -> Figures:
    """Put the load of `row` on the broker with process `pid` at `port`."""
    if row.mode == "batch":
        command = [sys.executable, "-m", "bench.batch_load"]
        command += ["--conns", str(row.conns), "--size", str(row.size)]
    else:
        command = [str(build_loadgen()), *row.loadgen_args()]
    command += ["-p", str(port), "-P", str(pid), "-T", TOPIC, "-q", "4"]
    command += ["-w", str(warm_s), "-d", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, cwd=HERE.parent, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        raise SystemExit(f"the load generator gave no figures (exit {done.returncode})")
    out = json.loads(lines[-1])
    return Figures(
        out["rate"], out["broker_us"], out["p50"], out["p99"], int(out["err"]), out["foreign"]
    )
