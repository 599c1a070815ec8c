"""Log lines as JSON: each is one object, whatever is logged; events have names and values."""

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.runtime.log_json import JsonFormatter, event_name
from epochmq.runtime.log_writer import QueuedHandler
from epochmq.runtime.logging_setup import configure, scrub, set_level, wait_written


def line(message: str, args: Any = (), *, about: str = "", **more: object) -> dict[str, Any]:
    record = logging.LogRecord("epochmq.part", logging.WARNING, "x.py", 1, message, (args,), None)
    record.args = args
    for name, value in more.items():
        setattr(record, name, value)
    text = JsonFormatter(scrub, lambda: about).format(record)
    assert "\n" not in text
    assert text.isascii()  # it can be written whatever it holds
    found: dict[str, Any] = json.loads(text, parse_constant=pytest.fail)
    return found


def test_an_event_with_its_values() -> None:
    found = line(
        "broker %(name)s is ready on port %(port)d",
        {"name": "a", "port": 10911, "path": Path("/x"), "none": None, "ratio": 0.5},
        about="C_a_0",
    )
    assert found["event"] == "broker_is_ready_on_port"
    assert found["message"] == "broker a is ready on port 10911"
    assert found["values"] == {"name": "a", "port": 10911, "path": "/x", "none": None, "ratio": 0.5}
    assert (found["level"], found["logger"], found["server"]) == (
        "warning",
        "epochmq.part",
        "C_a_0",
    )
    assert found["time"].endswith("Z")


def test_a_named_event() -> None:
    assert line("anything %(x)s", {"x": 1}, event="audit_change")["event"] == "audit_change"


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("registered at name server %(address)s", "registered_at_name_server"),
        ("%(error)s; trying again", "trying_again"),
        ("%(text)s", "part"),
        ("100%% of %(x).0f s, '%(y)r' %5d %-3s", "100_of_s"),
        ("the broker's own \u00fc file", "the_brokers_own_file"),
        ("one two three four five six seven eight nine", "one_two_three_four_five_six_seven_eight"),
    ],
)
def test_names(template: str, name: str) -> None:
    assert event_name(template, "epochmq.some.part") == name


def test_secrets_are_hidden_in_text_and_values() -> None:
    found = line(
        "changed secretKey=%(secretKey)s by %(who)s",
        {"secretKey": "abc", "who": "password=xyz", "accessToken": "t"},
    )
    assert "abc" not in json.dumps(found)
    assert "xyz" not in json.dumps(found)
    assert found["values"]["accessToken"] == "***"


def test_an_exception_is_a_part_of_the_line() -> None:
    try:
        raise ValueError("broken\nlines password=abc")
    except ValueError:
        found = line("it failed", exc_info=sys.exc_info())
    assert "ValueError: broken" in found["exception"]
    assert "abc" not in found["exception"]


@given(st.text(), st.dictionaries(st.text(), st.one_of(st.text(), st.floats(), st.integers())))
def test_any_text_of_a_stranger_is_one_object(text: str, values: dict[str, object]) -> None:
    found = line("peer said %(text)s", {**values, "text": text})
    assert found["event"] == "peer_said"


def test_lines_of_other_libraries_are_objects_too() -> None:
    assert line("%s of %d", ("a", 3))["message"] == "a of 3"


def test_configured_and_changed_at_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    file = tmp_path / "server.log"
    log = logging.getLogger("epochmq.some.part")
    try:
        configure("warning", str(file), "json")
        log.info("not logged")
        set_level("info")
        log.info("now %(x)d", {"x": 1})
        assert wait_written(20)
        rows = [json.loads(each) for each in file.read_text().splitlines()]
        assert [(row["event"], row["values"]) for row in rows] == [("now", {"x": 1})]
    finally:
        configure("info")
        for handler in [each for each in root.handlers if each not in handlers]:
            assert isinstance(handler, QueuedHandler)
            root.removeHandler(handler)
            handler.close()
        root.setLevel(level)
