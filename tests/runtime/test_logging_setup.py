import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.runtime import logging_setup as log_module
from epochmq.runtime.logging_setup import configure, reopen_files, scrub, wait_written

WAIT_MAX_S = 30


@pytest.mark.parametrize(
    ("text", "scrubbed"),
    [
        ("secretKey=abc next", "secretKey=*** next"),
        ('{"accessKey":"ab c","x":1}', '{"accessKey":***,"x":1}'),
        ("Signature: q1w2e3==, rest", "Signature: ***, rest"),
        ("password = 'hun ter2'", "password = ***"),
        ("aclSecretKey=x&b=2", "aclSecretKey=***&b=2"),
        ("topic=secrets count=3", "topic=secrets count=3"),
        ("nothing to hide", "nothing to hide"),
    ],
)
def test_values_named_like_secrets_are_hidden(text: str, scrubbed: str) -> None:
    assert scrub(text) == scrubbed


@pytest.mark.parametrize(
    "piece", ["a.", "secret", "secret-", "password  ", "access_key='", 'secretKey="', "a-b."]
)
def test_no_text_takes_long(piece: str) -> None:
    """What strangers send is logged in part: scrubbing it must not hold up the broker."""
    text = piece * (64 * 1024 // len(piece))
    start = time.process_time()
    scrub(text)
    assert time.process_time() - start < 0.5


@pytest.fixture
def clean_root() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    for handler in [handler for handler in root.handlers if handler not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(level)


@pytest.mark.usefixtures("clean_root")
def test_lines_go_to_stderr_and_to_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "logs" / "broker.log"
    configure("debug", str(file))
    logging.getLogger("epochmq.x").debug("hello token: secretKey=%s", "s3cret")
    assert wait_written(WAIT_MAX_S)
    shown = capsys.readouterr().err
    assert "hello" in shown
    assert "s3cret" not in shown
    assert file.read_text() == shown


@pytest.mark.usefixtures("clean_root")
def test_tracebacks_are_scrubbed_too(capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    try:
        raise ValueError("secretKey=s3cret")
    except ValueError:
        logging.getLogger("epochmq.x").exception("failed")
    assert wait_written(WAIT_MAX_S)
    shown = capsys.readouterr().err
    assert "failed" in shown
    assert "s3cret" not in shown


@pytest.mark.usefixtures("clean_root")
def test_configuring_again_replaces_the_handlers(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    configure("warning")
    logging.getLogger("epochmq.x").info("quiet")
    logging.getLogger("epochmq.x").warning("once")
    assert wait_written(WAIT_MAX_S)
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("clean_root")
def test_the_file_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "FILE_BYTES", 1_000)
    file = tmp_path / "a.log"
    configure("info", str(file))
    for number in range(200):
        logging.getLogger("epochmq.x").info("line %d", number)
    assert wait_written(WAIT_MAX_S)
    assert len(list(tmp_path.iterdir())) == log_module.FILES_KEPT + 1


@pytest.mark.usefixtures("clean_root")
def test_what_strangers_say_cannot_look_like_a_line(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    configure("info", str(file))
    forged = (
        "x\n2026-01-01 00:00:00,000 CRITICAL epochmq.store.gate: store fenced\r\x1b[2J\u2028\x85"
    )
    logging.getLogger("epochmq.x").info("group %s", forged)
    try:
        raise ValueError(forged)
    except ValueError:
        logging.getLogger("epochmq.x").exception("failed")
    assert wait_written(WAIT_MAX_S)
    lines = file.read_text().splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [
        line for line in lines if " epochmq.x: " in line
    ]
    assert not any(line.startswith("2026-01-01") for line in lines)
    assert "\x1b" not in file.read_text()
    assert "store fenced\\r\\x1b[2J\\u2028\\x85" in lines[0]


@pytest.mark.usefixtures("clean_root")
def test_files_that_were_moved_away_are_opened_again(tmp_path: Path) -> None:
    file, moved = tmp_path / "a.log", tmp_path / "a.log.old"
    configure("info", str(file))
    logging.getLogger("epochmq.x").info("before")
    assert wait_written(WAIT_MAX_S)
    file.rename(moved)
    reopen_files()
    logging.getLogger("epochmq.x").info("after")
    assert wait_written(WAIT_MAX_S)
    assert ("before" in moved.read_text(), "after" in file.read_text()) == (True, True)


def test_a_signal_that_ends_the_process_leaves_a_traceback(tmp_path: Path) -> None:
    file = tmp_path / "broker.log"
    text = (
        "import os, signal; from epochmq.runtime.logging_setup import report_crashes;"
        f" report_crashes({str(file)!r}); os.kill(os.getpid(), signal.SIGBUS)"
    )
    done = subprocess.run([sys.executable, "-c", text], check=False, timeout=60)
    assert done.returncode == -signal.SIGBUS
    assert "Fatal Python error: Bus error" in file.read_text()
