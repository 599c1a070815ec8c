"""What is started by `with` and stopped however that ends."""

from __future__ import annotations

import shutil
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import Self

from .ports import free_port
from .process import Process, is_listening


class Running(ABC):
    """Real processes that belong together; a start that fails half-way leaves none behind."""

    @abstractmethod
    def start(self) -> Self:
        """Return when all of them are ready."""

    @abstractmethod
    def stop(self) -> None:
        """Stop whatever runs, also when not all of it does."""

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class OneServer(Running):
    """One process that listens on a port of loopback, in a directory of its own.

    A subclass sets `process`, which logs there.
    """

    process: Process

    def __init__(self, name: str) -> None:
        self.root = Path(tempfile.mkdtemp(prefix=f"{name}-"))
        self.port = free_port()

    def start(self) -> Self:
        """Start it and wait until it listens."""
        self.process.start()
        self.process.wait_ready(lambda: is_listening(self.port), 60)
        return self

    def stop(self) -> None:
        """Kill it and remove what it kept."""
        self.process.kill9()
        shutil.rmtree(self.root, ignore_errors=True)
