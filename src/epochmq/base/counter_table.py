"""Counters by key; a limited number of them."""

from collections.abc import Callable
from typing import Generic, TypeVar

K = TypeVar("K")


class CounterTable(Generic[K]):
    """Counts up by key. When there are `keys_max` keys, what is added to new keys is not kept."""

    def __init__(self, keys_max: int) -> None:
        self._keys_max = keys_max
        self._counts: dict[K, int] = {}

    def add(self, key: K, count: int = 1) -> None:
        """Add `count` to the counter of `key`."""
        known = self._counts.get(key)
        if known is not None or len(self._counts) < self._keys_max:
            self._counts[key] = (known or 0) + count

    def items(self) -> list[tuple[K, int]]:
        """Return all counters with their keys."""
        return list(self._counts.items())

    def forget(self, is_gone: Callable[[K], bool]) -> None:
        """Drop the counters whose key is gone."""
        for key in [key for key in self._counts if is_gone(key)]:
            del self._counts[key]
