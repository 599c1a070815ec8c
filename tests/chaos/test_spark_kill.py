"""How a campaign against the archive counts, goes on, and reports."""

import json
from collections import Counter
from pathlib import Path

import pytest
from chaos.spark_kill import counts, parse
from chaos.spark_outcome import Outcome, done, read_legs, report, still

KILLS = Counter(
    {
        "driver, start-up, master none": 3,
        "driver, start-up, master local[2]": 2,
        "driver, session start-up, master local[2]": 4,
        "driver, mid-batch, master local-cluster[2,1,1024]": 1,
        "executor, mid-batch, master local-cluster[2,1,1024]": 5,
        "master, commit window, master local[2]": 6,
    }
)


def test_drivers_whose_jvm_never_began_are_no_sessions() -> None:
    leg = Outcome("delta", 1, KILLS)
    assert (leg.of("driver"), leg.of("executor"), leg.of("worker")) == (10, 5, 0)
    assert leg.of("master") == 6
    assert leg.sessions() == 5


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ([], {"driver": 60, "executor": 20, "worker": 10, "master": 20, "session": 20}),
        (["--count", "4", "--sessions", "9"], {"driver": 4, "executor": 2, "session": 4}),
        (["--victim", "driver", "--count", "6"], {"driver": 6, "session": 2}),
        (["--victim", "master", "--count", "6"], {"master": 6, "session": 0, "driver": 0}),
    ],
)
def test_victims_of_a_drill_are_chosen(arguments: list[str], wanted: dict[str, int]) -> None:
    found = counts(parse(arguments))
    assert {name: found[name] for name in wanted} == wanted


def test_a_record_is_gone_on_with(tmp_path: Path) -> None:
    record = tmp_path / "record"
    assert read_legs(record, "delta") == read_legs(None, "delta") == []
    legs = [Outcome("delta", 1, KILLS, rows=7), Outcome("iceberg", 1)]
    record.write_text("".join(json.dumps(vars(leg)) + "\n" for leg in legs))
    assert read_legs(record, "delta") == legs[:1]
    left = still(counts(parse([])), done(legs[:1]))
    assert left == {"driver": 50, "executor": 15, "worker": 10, "master": 14, "session": 15}
    few = still(Counter({"driver": 10, "session": 10}), done(legs[:1]))
    assert few == {"driver": 5, "session": 5}, "a session dies with its driver"


def test_the_page_of_a_campaign() -> None:
    leg = Outcome("delta", 1, KILLS, rows=1_234, acked=1_200, seconds=9.0, runs=12)
    page = report("delta", [leg, leg])
    assert "delta: 20 drivers, 10 executors, 0 workers, 12 masters killed in 18 s, 2 tables" in page
    assert "10 of the drivers with a session of Spark" in page
    assert "   8 x driver, session start-up, master local[2]" in page
    assert "2,468 rows = messages by place and id, 2,400 of them acknowledged" in page
