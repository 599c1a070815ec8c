"""Constants of the product that are others while a history runs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType

Values = Iterable[tuple[ModuleType, str, object]]
"""(module, name, value inside)"""


@contextmanager
def replaced(values: Values) -> Iterator[None]:
    """Inside, the constants have these values."""
    values = list(values)
    before = [(module, name, getattr(module, name)) for module, name, _ in values]
    for module, name, value in values:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)
