"""Temporarily replaces attributes of the product's and Python's modules (monkey patching)."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Values = Iterable[tuple[object, str, object]]
"""(module or class, name, replacement)"""


@contextmanager
def replaced(values: Values) -> Iterator[None]:
    """Replace the attributes inside the `with` block."""
    values = list(values)
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in values]
    for owner, name, value in values:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
