"""Where epochs begin, as queue offsets."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.broker.broker_harness import BrokerHarness, Client, send
from tests.broker.requests.test_replica_handlers import Replica

from epochmq.broker.requests.log_handlers import start_of
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.controller_bodies import EpochEntryBody
from epochmq.wire.bodies.offset_bodies import EpochOffsets
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command


class Epochs(Replica):
    def __init__(self, *starts: tuple[int, int]) -> None:
        super().__init__()
        self.starts = starts

    def epochs(self) -> list[EpochEntryBody]:
        return [EpochEntryBody(epoch, start) for epoch, start in self.starts]


def ask(epoch: int, topic: str = "T") -> Command:
    return Command(Code.EPOCH_OFFSETS, ext={"topic": topic, "epoch": str(epoch)})


def offsets(client: Client, epoch: int, topic: str = "T") -> dict[str, int]:
    answer = client.ask(ask(epoch, topic))
    assert answer.code == ResponseCode.SUCCESS, answer
    return decode_body(EpochOffsets, answer.body).offsets


@pytest.fixture
def harness() -> BrokerHarness:
    """Epoch 2 begins behind one message in queue 0 and two in queue 1, epoch 4 at the end."""
    harness = BrokerHarness(enable_controller_mode=True)
    harness.topic("T", 2)
    harness.topic("E", 1)
    client = harness.client()
    for queue_id in (0, 1, 1):
        client.ask(send(b"old", queue_id=queue_id))
    second = harness.store.pointers.appended
    for queue_id in (0, 0, 1):
        client.ask(send(b"new", queue_id=queue_id))
    harness.node.replica = Epochs((1, 0), (2, second), (4, harness.store.pointers.appended))
    return harness


def test_first_messages_of_epochs(harness: BrokerHarness) -> None:
    client = harness.client()
    assert offsets(client, 1) == {"0": 0, "1": 0}
    assert offsets(client, 2) == {"0": 1, "1": 2}
    assert offsets(client, 3) == offsets(client, 4) == {"0": 3, "1": 3}
    assert offsets(client, 0) == {"0": 0, "1": 0}
    assert offsets(client, 2, "E") == {"0": 0}


def test_refusals(harness: BrokerHarness) -> None:
    client = harness.client()
    answer = client.ask(ask(5))
    assert answer.code == ResponseCode.INVALID_PARAMETER
    assert "the last one there is 4" in (answer.remark or "")
    assert client.ask(ask(1, "Nope")).code == ResponseCode.TOPIC_NOT_EXIST
    plain = BrokerHarness()
    plain.topic("T")
    assert "controller mode" in (plain.client().ask(ask(1)).remark or "")


@given(st.lists(st.integers(0, 50), max_size=8, unique=True), st.integers(-1, 60))
def test_an_epoch_begins_where_it_or_the_next_one_does(known: list[int], asked: int) -> None:
    epochs = [EpochEntryBody(epoch, epoch * 100) for epoch in sorted(known)]
    later = [epoch for epoch in known if epoch >= asked]
    if later:
        assert start_of(epochs, asked) == min(later) * 100
    else:
        with pytest.raises(Exception, match="has not begun"):
            start_of(epochs, asked)
