"""Slow devices and suspended machines for real processes, by a library that is loaded first."""

import mmap
import os
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

from tests.compat.peers.group import Server

SOURCE = Path(__file__).with_name("shim.c")
_NUMBERS = struct.Struct("=qq")


class NoCompiler(Exception):
    """The library cannot be built here."""


def build(folder: Path) -> Path:
    """The library, compiled into `folder`; `NoCompiler` where that cannot be done."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise NoCompiler("no C compiler: suspended machines and slow devices are not played")
    made = folder / "shim.so"
    argv = [compiler, "-O2", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NoCompiler(f"the C compiler fails: {done.stderr[-500:]}")
    return made


class Shim:
    """Controls one server process; made before the process starts."""

    def __init__(self, library: Path, server: Server) -> None:
        self._server = server
        path = server.root / "shim"
        path.write_bytes(bytes(_NUMBERS.size))
        server.process.env |= {"LD_PRELOAD": str(library), "EPOCHMQ_SHIM": str(path)}
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _NUMBERS.size)
        self._suspended_ns = 0
        self._sync_delay_ns = 0
        self._stopped_at_ns = 0

    def delay_syncs(self, seconds: float) -> None:
        """Each sync of a file takes so much longer from now on."""
        self._sync_delay_ns = int(seconds * 1e9)
        self._write()

    def suspend(self) -> None:
        """The machine stands still."""
        self._stopped_at_ns = time.monotonic_ns()
        os.kill(self._server.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """It goes on; its CLOCK_MONOTONIC has not counted the time between."""
        self._suspended_ns += time.monotonic_ns() - self._stopped_at_ns
        self._write()
        os.kill(self._server.process.pid, signal.SIGCONT)

    def _write(self) -> None:
        self._map[:] = _NUMBERS.pack(self._suspended_ns, self._sync_delay_ns)
