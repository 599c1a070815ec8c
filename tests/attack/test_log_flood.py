"""Strangers cause log lines, and nobody reads them: the server goes on."""

import subprocess
from pathlib import Path

import pytest
from tests.attack.server import running_broker

pytestmark = pytest.mark.process

STRANGERS = 1_500
"""Each is told of when it leaves: more than a pipe holds."""


def test_a_pipe_that_nobody_reads_stops_nothing(tmp_path: Path) -> None:
    args = ("--log-level", "debug")
    with running_broker(tmp_path, args=args, stderr=subprocess.PIPE) as broker:
        with broker.line() as line, broker.check_turns():
            for _ in range(STRANGERS):
                with broker.line():
                    pass
                assert line.call(28).code == 0
        assert broker.send().code == 0
        assert broker.stop() == 0


def test_one_line_a_second_tells_of_a_peer_that_is_cut(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        for _ in range(300):
            with broker.line() as stranger:
                stranger.sock.sendall(b"\xff" * 16)
                assert stranger.is_closed()
        broker.stop()
        text = broker.log_text()
        assert 1 <= text.count("closed: ") < 30
        assert "more such lines were left out" in text or text.count("closed: ") == 1
