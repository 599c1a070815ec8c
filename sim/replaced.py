"""What of the product and of Python is another while a history runs."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

Values = Iterable[tuple[object, str, object]]
"""(module or class, name, value inside)"""


@contextmanager
def replaced(values: Values) -> Iterator[None]:
    """Inside, the names have these values."""
    values = list(values)
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in values]
    for owner, name, value in values:
        setattr(owner, name, value)
    try:
        yield
    finally:
        for owner, name, value in before:
            setattr(owner, name, value)
