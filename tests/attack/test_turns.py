"""The figures by which attacks are judged are those of the process that is attacked."""

import signal
import time
from pathlib import Path

import pytest
from tests.attack.server import running_broker, running_name_server

pytestmark = pytest.mark.process


def test_a_broker_tells_how_long_its_turns_are(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        with broker.check_turns():
            assert broker.send().code == 0
        before = broker.turns()
        broker.child.send_signal(signal.SIGSTOP)
        time.sleep(0.7)  # the length of the turn
        broker.child.send_signal(signal.SIGCONT)
        after = broker.turns()
        assert after[500] == before[500] + 1
        assert int(broker.figures()["epochmqLoopTurnMaxMs"]) > 500
        broker.wait_for_log("a turn of the event loop took")


def test_a_name_server_tells_it_too(tmp_path: Path) -> None:
    with running_name_server(tmp_path) as server, server.check_turns():
        assert server.figures()["epochmqLoopTurnMaxMs"].isdigit()
