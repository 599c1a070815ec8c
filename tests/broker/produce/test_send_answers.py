"""Codes and remarks of what was not stored; answers in both encodings."""

import pytest
from tests.broker.fake_session import FakeSession

from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.produce.send_answers import SendAnswers, Ticket, refusal
from epochmq.model.message_id import parse_offset_id
from epochmq.store.draft import Appended, PutStatus
from epochmq.wire.command import Command, Reply, decode
from epochmq.wire.frame import FrameReader

HOST = bytes((127, 0, 0, 1, 0, 0, 42, 159))
STORED = Appended(258, 100, 7, 0)


def said(session: FakeSession) -> list[Command]:
    data = b"".join(map(bytes, session.pop_outbox()))
    return [decode(f.header, f.binary, bytes(f.body)) for f in FrameReader().feed(data)]


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (PutStatus.SERVICE_NOT_AVAILABLE, 14),
        (PutStatus.MESSAGE_ILLEGAL, 13),
        (PutStatus.PROPERTIES_SIZE_EXCEEDED, 13),
        (PutStatus.FLUSH_DISK_TIMEOUT, 10),
        (PutStatus.SLAVE_NOT_AVAILABLE, 11),
        (PutStatus.FLUSH_SLAVE_TIMEOUT, 12),
        (PutStatus.CREATE_MAPPED_FILE_FAILED, 1),
        (PutStatus.IN_SYNC_REPLICAS_NOT_ENOUGH, 1),
        (PutStatus.UNKNOWN_ERROR, 1),
    ],
)
def test_every_status_has_its_code_and_says_why(status: PutStatus, code: int) -> None:
    reply = refusal(status, BrokerOptions(max_message_size=4096))
    assert reply.code == code
    assert reply.remark
    if code == 13:
        assert "4096B" in reply.remark


@pytest.mark.parametrize("code", [0, 10])
@pytest.mark.parametrize(
    "command", [None, Command(310, opaque=5), Command(10, opaque=5, binary=True)]
)
@pytest.mark.parametrize("key", ["ABC", 'odd"\x02\u00fc'])
def test_answers_say_the_same_in_every_form(code: int, command: Command | None, key: str) -> None:
    session = FakeSession()
    answers = SendAnswers(HOST, "Region%d", trace_on=False)
    answers.answer(Ticket(session, 5, command, 3, key, 310, 0, wait=True), STORED, code)
    (answer,) = said(session)
    assert (answer.code, answer.opaque, answer.is_response) == (code, 5, True)
    assert answer.binary == (command is not None and command.binary)
    assert answer.ext == {
        "msgId": "7F00000100002A9F0000000000000102",
        "queueId": "3",
        "queueOffset": "7",
        "transactionId": key,
        "MSG_REGION": "Region%d",
        "TRACE_ON": "false",
    }


def test_a_batch_has_one_id_for_each_message() -> None:
    header = SendAnswers(HOST, "R", True).header(1, [STORED, STORED], None)
    ids = header.msgId.split(",")
    assert [parse_offset_id(text) for text in ids] == [("127.0.0.1", 10911, 258)] * 2


def test_refusals_reach_both_kinds_of_tickets() -> None:
    session = FakeSession()
    answers = SendAnswers(HOST, "R", True)
    for command in (None, Command(10, opaque=5, binary=True)):
        answers.refuse(Ticket(session, 5, command, 0, "K", 310, 0, wait=True), Reply(14, "no"))
    assert [(a.code, a.remark, a.opaque) for a in said(session)] == [(14, "no", 5)] * 2


def test_a_key_of_any_length_is_answered() -> None:
    session = FakeSession()
    ticket = Ticket(session, 5, Command(310, opaque=5), 0, "\x03" * 30_000, 310, 0, wait=True)
    SendAnswers(HOST, "R", True).answer(ticket, STORED, 0)
    (answer,) = said(session)
    assert (answer.code, (answer.ext or {})["transactionId"]) == (0, "\x03" * 1024)
