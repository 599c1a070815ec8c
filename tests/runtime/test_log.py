import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from epochmq.runtime import log as log_module
from epochmq.runtime.log import configure, scrub


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
    assert "s3cret" not in capsys.readouterr().err


@pytest.mark.usefixtures("clean_root")
def test_configuring_again_replaces_the_handlers(capsys: pytest.CaptureFixture[str]) -> None:
    configure("info")
    configure("warning")
    logging.getLogger("epochmq.x").info("quiet")
    logging.getLogger("epochmq.x").warning("once")
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.usefixtures("clean_root")
def test_the_file_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "FILE_BYTES", 1_000)
    file = tmp_path / "a.log"
    configure("info", str(file))
    for number in range(200):
        logging.getLogger("epochmq.x").info("line %d", number)
    assert len(list(tmp_path.iterdir())) == log_module.FILES_KEPT + 1
