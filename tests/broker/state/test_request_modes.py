"""Pull or POP for each topic and group: the table and its file."""

import json

import msgspec
import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.state.request_modes import RequestModes
from epochmq.broker.state.saved_files import load_table, save_dirty
from epochmq.wire.bodies.pop_bodies import MODE_POP, MODE_PULL, MessageRequestMode


def row(topic: str = "T", group: str = "g", mode: str = MODE_POP, n: int = 3) -> MessageRequestMode:
    return MessageRequestMode(topic, group, mode=mode, pop_share_queue_num=n)


def test_the_file_is_upstreams() -> None:
    disk, modes = FakeDisk({}), RequestModes()
    modes.put(row())
    assert save_dirty(disk, [modes]) == 1
    data = disk.read_file("config/messageRequestMode.json")
    assert data is not None
    content = json.loads(data)
    del content["epochmqSaved"]
    assert content == {
        "messageRequestModeMap": {
            "T": {
                "g": {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 3, "topic": "T"},
            }
        }
    }
    again = RequestModes()
    assert load_table(disk, again)
    assert again.get("T", "g") == row()
    assert not again.dirty


def test_a_row_is_replaced() -> None:
    modes = RequestModes()
    modes.put(row())
    modes.put(row(mode=MODE_PULL))
    assert modes.get("T", "g") == row(mode=MODE_PULL)
    assert (len(modes), modes.changes.count) == (1, 2)
    assert modes.get("T", "other") is None


@pytest.mark.parametrize(
    ("bad", "code"), [(row("%RETRY%g"), 16), (row(mode="PUSH"), 1), (row(mode=""), 1)]
)
def test_refused(bad: MessageRequestMode, code: int) -> None:
    modes = RequestModes()
    with pytest.raises(Refused) as error:
        modes.put(bad)
    assert error.value.code == code
    assert (len(modes), modes.dirty) == (0, False)


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUEST_MODES_MAX", 1)
    modes = RequestModes()
    modes.put(row())
    modes.put(row(n=1))
    with pytest.raises(Refused):
        modes.put(row("U"))
    with pytest.raises(ValueError, match="more than"):
        modes.adopt({"U": {"g": row("U")}})
    assert len(modes) == 1


def test_a_replica_adds_and_takes_nothing_away() -> None:
    """rocketmq#9804: a table that came empty deleted what the replica had."""
    modes = RequestModes()
    modes.put(row())
    changes = modes.changes.count
    modes.adopt({})
    modes.adopt({"T": {"g": row()}})
    assert modes.changes.count == changes
    modes.adopt({"T": {"h": row(group="h")}})
    assert len(modes) == 2
    assert modes.changes.count == changes + 1


def test_a_file_that_is_none() -> None:
    with pytest.raises(msgspec.ValidationError):
        RequestModes().load({"messageRequestModeMap": 3})
