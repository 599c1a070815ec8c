"""The page of log events is built from the log calls and nothing else."""

from pathlib import Path

import pytest

import events_doc

SOURCE = """
log.info("broker %(name)s is ready on %(address)s", {"name": 1, "address": 2})
log.warning("%(text)s", {"text": 1})
log.exception("it failed")
log.debug("not shown")
log.info("with a name", extra={"event": "chosen"})
log.info(text)
other.info("not a log")
"""


def test_each_call_is_an_event(tmp_path: Path) -> None:
    (tmp_path / "broker").mkdir()
    (tmp_path / "broker" / "part.py").write_text(SOURCE)
    found = list(events_doc.events(tmp_path))
    assert [(each.name, each.level) for each in found] == [
        ("broker_is_ready_on", "info"),
        ("part", "warning"),
        ("it_failed", "error"),
        ("not_shown", "debug"),
        ("chosen", "info"),
    ]
    page = events_doc.build(found)
    assert "| `broker_is_ready_on` | info | broker %(name)s is ready on %(address)s |" in page
    assert "not shown" not in page
    assert events_doc.problems(found) == []


def test_values_without_names_are_told(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text('log.info("broker %s is ready", name)\n')
    (problem,) = events_doc.problems(list(events_doc.events(tmp_path)))
    assert "part.py:1" in problem
    assert "%(name)s" in problem


def test_a_page_that_does_not_match_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "EVENTS.md"
    monkeypatch.setattr(events_doc, "TARGET", target)
    assert events_doc.main(["--check"]) == 1
    assert events_doc.main([]) == 0
    assert events_doc.main(["--check"]) == 0
    assert "controller_leads_in_term" in target.read_text()
