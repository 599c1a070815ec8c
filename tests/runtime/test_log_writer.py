import logging
import threading
from collections.abc import Sequence

import pytest

from epochmq.runtime import log_writer
from epochmq.runtime.log_writer import QueuedHandler, file_handler

WAIT_MAX_S = 30


class Target:
    """Takes lines once it is let."""

    def __init__(self) -> None:
        self.may_write = threading.Event()
        self.begun = threading.Event()
        self.text = ""

    def write(self, lines: Sequence[str]) -> None:
        self.begun.set()
        assert self.may_write.wait(WAIT_MAX_S)
        self.text += "".join(lines)


def record(text: str, level: int = logging.INFO) -> logging.LogRecord:
    return logging.LogRecord("x", level, "", 0, text, None, None)


def test_a_target_that_does_not_take_lines_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "LINES_MAX", 10)
    target = Target()
    handler = QueuedHandler(target.write)
    handler.handle(record("first"))
    assert target.begun.wait(WAIT_MAX_S)
    before = QueuedHandler.dropped_in_all
    for number in range(15):
        handler.handle(record(f"line {number}"))
    assert QueuedHandler.dropped_in_all == before + 5
    assert not handler.wait_written(0.01)
    target.may_write.set()
    assert handler.wait_written(WAIT_MAX_S)
    assert target.text.startswith("first\nline 0\n")
    assert "line 9\n" in target.text
    assert "line 10" not in target.text
    assert "WARNING epochmq.runtime.log_writer: 5 lines were dropped\n" in target.text
    handler.close()


def test_the_bytes_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_writer, "BYTES_MAX", 100)
    target = Target()
    handler = QueuedHandler(target.write)
    before = QueuedHandler.dropped_in_all
    handler.handle(record("x" * 200))
    assert QueuedHandler.dropped_in_all == before + 1
    target.may_write.set()
    handler.close()


def test_an_exit_waits_for_the_last_lines_but_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target = Target()
    handler = QueuedHandler(target.write)
    target.may_write.set()
    handler.handle(record("last"))
    handler.close()
    assert target.text == "last\n"
    monkeypatch.setattr(log_writer, "FLUSH_S", 0.01)
    target = Target()
    handler = QueuedHandler(target.write)
    handler.handle(record("never"))
    handler.flush()
    handler.close()
    target.may_write.set()


def test_a_critical_line_is_waited_for() -> None:
    target = Target()
    target.may_write.set()
    handler = QueuedHandler(target.write)
    handler.handle(record("it ends", logging.CRITICAL))
    assert target.text == "it ends\n"
    handler.close()


def test_a_target_that_fails_is_tried_again_with_the_next_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[str] = []
    failures = [OSError("no space left")]

    def write(lines: Sequence[str]) -> None:
        if failures:
            raise failures.pop()
        written.extend(lines)

    handler = QueuedHandler(write)
    before = QueuedHandler.dropped_in_all
    handler.handle(record("lost"))
    assert handler.wait_written(WAIT_MAX_S)
    assert QueuedHandler.dropped_in_all == before + 1
    handler.handle(record("there"))
    handler.close()
    assert written == ["there\n"]


def test_a_record_that_cannot_be_formatted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    target = Target()
    target.may_write.set()
    handler = QueuedHandler(target.write)
    handler.handle(logging.LogRecord("x", logging.INFO, "", 0, "%d", ("text",), None))
    handler.close()
    assert target.text == ""


def test_a_file_that_cannot_be_made(tmp_path: object) -> None:
    with pytest.raises(OSError, match="No such file"):
        file_handler(f"{tmp_path}/none/a.log", 100, 1)
