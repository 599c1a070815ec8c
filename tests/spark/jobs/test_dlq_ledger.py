"""A ledger survives being cut off at any byte, and forgets nothing that was written whole."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from epochmq.base.errors import EnvironmentFault, UsageError
from epochmq.spark.jobs.dlq_ledger import LedgerInUse, open_ledger, read_ledger

PLACES = [f"broker-a:0:{n}" for n in range(4)]


def write(path: Path, count: int) -> bytes:
    path.unlink(missing_ok=True)
    ledger = open_ledger(path, "g")
    ledger.begin("retry", PLACES)
    for place in PLACES[:count]:
        ledger.sent(place, "ID", "AB")
    ledger.close()
    return path.read_bytes()


@settings(max_examples=examples(60))
@given(count=st.integers(0, 4), cut=st.integers(0, 2000))
def test_cut_off_anywhere(tmp_path_factory: pytest.TempPathFactory, count: int, cut: int) -> None:
    path = tmp_path_factory.mktemp("ledger") / "ledger"
    data = write(path, count)[:cut]
    path.write_bytes(data)
    lines = data.count(b"\n")
    ledger = open_ledger(path, "g")
    assert list(ledger.done) == PLACES[: max(lines - 1, 0)]
    assert (ledger.run is not None) == (lines > 0)
    if ledger.unfinished is not None:
        for place in PLACES[ledger.unfinished.sent :]:
            ledger.sent(place, "ID", "AB")
    elif not lines:
        ledger.begin("retry", PLACES)
    ledger.close()
    again = read_ledger(path, "g")
    assert again.done == ledger.done
    assert again.run == ledger.run


def test_a_finished_run_is_followed_by_another(tmp_path: Path) -> None:
    write(tmp_path / "ledger", 4)
    ledger = open_ledger(tmp_path / "ledger", "g")
    assert ledger.unfinished is None
    first = ledger.run
    ledger.begin("origin", ["broker-a:0:9"])
    assert ledger.unfinished is not None
    assert first is not None
    assert ledger.unfinished.id != first.id
    ledger.close()


def test_files_that_are_no_ledger_of_the_group(tmp_path: Path) -> None:
    write(tmp_path / "ledger", 1)
    with pytest.raises(UsageError, match="ledger of group g; h needs its own"):
        open_ledger(tmp_path / "ledger", "h")
    for text in ("hello\n", '{"sent": 1}\n', "[]\n", '{"run": 1}\n'):
        (tmp_path / "other").write_text(text)
        with pytest.raises(UsageError, match="not a ledger"):
            open_ledger(tmp_path / "other", "g")
        with pytest.raises(UsageError, match="not a ledger"):
            read_ledger(tmp_path / "other", "g")
    with pytest.raises(EnvironmentFault, match="cannot use"):
        open_ledger(tmp_path, "g")
    with pytest.raises(EnvironmentFault, match="cannot read"):
        read_ledger(tmp_path, "g")
    with pytest.raises(EnvironmentFault, match="cannot use"):
        open_ledger(tmp_path / "no" / "such", "g")
    assert read_ledger(tmp_path / "no" / "such", "g").done == {}


def test_one_run_at_a_time_sends_with_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    first = open_ledger(path, "g")
    first.begin("retry", PLACES)
    with pytest.raises(LedgerInUse, match="already; try again"):
        open_ledger(path, "g")
    first.close()
    open_ledger(path, "g").close()


def test_a_reader_leaves_a_line_that_is_being_written(tmp_path: Path) -> None:
    path = tmp_path / "ledger"
    data = write(path, 2)
    path.write_bytes(data[:-5])
    found = read_ledger(path, "g")
    assert list(found.done) == PLACES[:1]
    assert path.read_bytes() == data[:-5]
