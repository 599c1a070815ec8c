"""The end of the demo without Spark, and the marks in the picture."""

from pathlib import Path

import pytest

from examples.demo import report as module
from examples.demo.failovers import KillTimeline
from examples.demo.flights import Delay, Flight
from examples.demo.lake import Facts
from examples.demo.report import DemoEnding, marks
from examples.demo.run import DemoOutcome
from examples.demo.verdict import DemoVerdict

FLIGHTS = [Flight("UA", 0, b'{"carrier":"UA","hour":5,"dep_delay":7}')]


def outcome() -> DemoOutcome:
    made = DemoOutcome(DemoVerdict(sent=1))
    made.curve.add(100.0, 1)
    return made


def test_not_wanted(tmp_path: Path) -> None:
    said: list[str] = []
    ending = DemoEnding(tmp_path, "127.0.0.1:9", said.append, spark=False)
    ending.begin()
    ending.finish()
    ending.stop()
    assert ending.judge(outcome(), FLIGHTS, tmp_path / "p.png") is None
    assert said == []


def test_wanted_and_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.lake, "missing", lambda: "no Java")
    said: list[str] = []
    ending = DemoEnding(tmp_path, "127.0.0.1:9", said.append, spark=True)
    ending.begin()
    ending.finish()
    found = ending.judge(outcome(), FLIGHTS, tmp_path / "p.png")
    assert found == {"left_out": "no Java"}
    assert said == ["without Spark: no Java"]


def test_what_is_wrong_with_the_table_is_in_the_verdict(tmp_path: Path) -> None:
    ending = DemoEnding(tmp_path, "127.0.0.1:9", print, spark=True)
    ending._facts = Facts(1, 1, 0, 1, [Delay("UA", 5, 1, 1, 8)])
    end = outcome()
    found = ending.judge(end, FLIGHTS, tmp_path / "p.png")
    assert found is not None
    assert found["rows"] == 1
    assert "8 minutes late, the data set has 1 flights" in end.verdict.problems[0]


def test_marks() -> None:
    end = outcome()
    end.timelines.append(KillTimeline("broker-0", 1, 102.0, new_epoch=2, first_ack_ms=150.0))
    end.timelines.append(KillTimeline("broker-1", 2, 104.0))
    first, second = marks(end)
    assert (first.begin_s, round(first.end_s, 2)) == (2.0, 2.15)
    assert first.text == "broker-0 killed: epoch 2 after 150 ms"
    assert (second.begin_s, second.end_s, second.text) == (4.0, 4.0, "broker-1 killed")
