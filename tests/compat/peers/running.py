"""What is started by `with` and stopped however that ends."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Self


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
