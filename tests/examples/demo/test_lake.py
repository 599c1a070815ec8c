"""The archive's processes, and what counts as wrong with the table."""

from pathlib import Path

import pytest

from epochmq.base.errors import EnvironmentFault
from examples.demo import lake
from examples.demo.flights import Delay
from examples.demo.lake import Facts, Lake, as_report, judge

DELAYS = [Delay("UA", 5, 3, 2, 7)]
NOWHERE = "127.0.0.1:9"


def test_a_table_that_holds_all_once() -> None:
    facts = Facts(rows=3, places=3, gaps=0, flights=3, delays=DELAYS)
    assert judge(facts, 3, DELAYS) == []


def test_everything_that_can_be_wrong_is_told() -> None:
    facts = Facts(rows=1_003, places=3, gaps=2, flights=2, delays=[])
    problems = judge(facts, 3, DELAYS)
    assert problems[0] == "1,000 rows of the table are there twice"
    assert "lacks 2 messages" in problems[1]
    assert problems[2] == "the table holds 2 flights, 3 were sent"
    assert "UA at 5 h: nothing" in problems[3]


def test_sends_that_were_tried_again_are_told_and_no_fault() -> None:
    facts = Facts(rows=5, places=5, gaps=0, flights=3, delays=DELAYS)
    assert judge(facts, 3, DELAYS) == []
    found = as_report(facts, 1.23)
    assert (found["rows"], found["duplicates"], found["sent_again"]) == (5, 0, 2)


def test_without_java_there_is_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert "JAVA_HOME is /nowhere" in str(lake.missing())


def test_an_archive_that_cannot_begin_is_told_with_its_log(tmp_path: Path) -> None:
    said: list[str] = []
    made = Lake(tmp_path, "flights", said.append)
    made.stop()  # nothing runs yet
    made.start(NOWHERE)
    assert said
    assert made._stream is not None
    made._stream.wait(60)
    with pytest.raises(EnvironmentFault, match=r"ended by itself; see .*spark\.log"):
        made.finish(NOWHERE)
    assert NOWHERE in (tmp_path / "logs" / "spark.log").read_text()


def test_a_query_of_no_table_is_told(tmp_path: Path) -> None:
    made = Lake(tmp_path, "flights", print)
    made._folder.mkdir()
    made._log.parent.mkdir()
    with pytest.raises(EnvironmentFault, match="Spark SQL failed"):
        made.query()
