"""Where half messages went is remembered as long as there is room."""

import pytest

from epochmq.base import limits
from epochmq.broker.escape.forward_batch import ForwardedMessage, HandedOverHalves
from epochmq.model.host import pack
from epochmq.model.message_id import offset_id
from epochmq.model.properties import encode
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.store.draft import Draft
from epochmq.wire.command import Command
from epochmq.wire.headers.send_headers import COMMIT, EndTransactionHeader

END = EndTransactionHeader("PG", 1, 2, COMMIT, "m", True, "t", "T")


def item(key: str = "k", sys_flag: int = TX_PREPARED) -> ForwardedMessage:
    raw = encode({"PGROUP": "PG", "UNIQ_KEY": key}).encode()
    return ForwardedMessage(Draft("T", 0, b"x", raw, sys_flag=sys_flag), "T", 1)


def answer(offset: int = 77) -> Command:
    found = offset_id(pack("127.0.0.1", 10911), offset)
    return Command(0, ext={"msgId": found, "queueId": "0", "queueOffset": "5"})


def test_an_end_is_asked_for_where_the_half_message_is() -> None:
    halves = HandedOverHalves()
    assert halves.follow(END, "k") is None
    halves.note(item(), "z:1", answer())
    found = halves.follow(END, "k")
    assert found is not None
    address, header = found
    assert address == "z:1"
    assert (header.tranStateTableOffset, header.commitLogOffset) == (5, 77)
    assert (header.commitOrRollback, header.fromTransactionCheck) == (COMMIT, True)
    assert (header.msgId, header.producerGroup, header.topic) == ("k", "PG", "T")
    assert halves.follow(EndTransactionHeader("other", 1, 2, COMMIT, "m"), "k") is None


def test_what_is_no_half_message_or_says_no_place_is_not_noted() -> None:
    halves = HandedOverHalves()
    halves.note(item(sys_flag=0), "z:1", answer())
    halves.note(item(), "z:1", Command(0, ext={"msgId": "?", "queueId": "0", "queueOffset": "5"}))
    halves.note(item(), "z:1", Command(0, ext={}))
    assert halves.follow(END, "k") is None


def test_the_oldest_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TRANSACTIONS_OPEN_MAX", 1)
    halves = HandedOverHalves()
    halves.note(item("k"), "z:1", answer())
    halves.note(item("l"), "z:1", answer())
    assert halves.follow(END, "k") is None
    assert halves.follow(END, "l") is not None
