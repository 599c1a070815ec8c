"""The data set: read without importing its package."""

import sys
import zipfile
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from epochmq.base.errors import EnvironmentFault
from examples.demo import flights as module
from examples.demo.flights import data_file, flights

ROWS = """\
year,dep_time,dep_delay,carrier,tailnum,time_hour
2013,517,2,UA,N14228,2013-01-01T10:00:00Z
2013,NA,-3.0,AA,,2013-01-01T10:00:00Z
2013,,1,UA,N1,2013-01-01T11:00:00Z
"""


@pytest.fixture
def small(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", ROWS)
    return path


def test_rows_become_json(small: Path) -> None:
    first, second, third = flights(small)
    assert msgspec.json.decode(first.body) == {
        "year": 2013,
        "dep_time": 517,
        "dep_delay": 2,
        "carrier": "UA",
        "tailnum": "N14228",
        "time_hour": "2013-01-01T10:00:00Z",
    }
    assert msgspec.json.decode(second.body)["dep_time"] is None
    assert msgspec.json.decode(second.body)["dep_delay"] == -3
    assert msgspec.json.decode(second.body)["tailnum"] is None
    assert [(f.carrier, f.number) for f in (first, second, third)] == [
        ("UA", 0),
        ("AA", 0),
        ("UA", 1),
    ]
    assert len(list(flights(small, 2))) == 2


def test_the_real_one() -> None:
    carriers = Counter(flight.carrier for flight in flights(data_file(), 20_000))
    assert sum(carriers.values()) == 20_000
    assert carriers["UA"] > 3_000
    assert module.PACKAGE not in sys.modules


def test_without_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGE", "no_such_package")
    with pytest.raises(EnvironmentFault, match="pip install --no-deps no_such_package"):
        data_file()
