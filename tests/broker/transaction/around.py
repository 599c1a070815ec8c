"""A broker with transactions, its clients and what they say."""

from collections.abc import Sequence
from typing import Any

from sim.kernel.disk import SimDisk
from tests.broker.broker_harness import BrokerHarness, Client, ext, send

from epochmq.broker.consume.client_tables import ClientMember
from epochmq.broker.internal_writes.internal_writer import Origin, WriteOutcome
from epochmq.model import record
from epochmq.model.message_id import parse_offset_id
from epochmq.model.sys_flag import TX_PREPARED
from epochmq.store.draft import Draft
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import FLAG_ONEWAY, Command, decode
from epochmq.wire.frame import FrameReader

COMMIT, ROLLBACK = 8, 12
KEY = "0A0000090BAD18B4AAC2000000000001"


def made(**more: Any) -> BrokerHarness:
    harness = BrokerHarness(**more)
    harness.topic("T")
    tick(harness)
    return harness


def tick(harness: BrokerHarness, ms: int = 0) -> None:
    harness.clock.step(ms)
    for _ in range(4):
        harness.node.transactions.tick(harness.clock.now, harness.clock.wall)
        harness.node.pending_writes.tick(harness.clock.now)
    harness.store.sync()


def half(body: bytes = b"hello", key: str = KEY, **more: Any) -> Command:
    properties = {"UNIQ_KEY": key, "TRAN_MSG": "true", "PGROUP": "PG", "TAGS": "a", "KEYS": "k"}
    properties |= more.pop("properties", {})
    return send(body, properties=properties, sysFlag=TX_PREPARED, queue_id=1, **more)


def end(answer: Command, how: int = COMMIT, *, oneway: bool = False, **more: Any) -> Command:
    said = ext(answer)
    fields = {
        "producerGroup": "PG",
        "tranStateTableOffset": said["queueOffset"],
        "commitLogOffset": str(parse_offset_id(said["msgId"])[2]),
        "commitOrRollback": str(how),
        "fromTransactionCheck": "false",
        "msgId": said.get("transactionId", ""),
        "transactionId": said.get("transactionId", ""),
        **{name: str(value) for name, value in more.items()},
    }
    flag = FLAG_ONEWAY if oneway else 0
    return Command(Code.END_TRANSACTION, ext=fields, language="JAVA", version=401, flag=flag)


def bodies(harness: BrokerHarness, topic: str = "T", queue_id: int = 1) -> list[bytes]:
    return [message.body for message in harness.stored(topic, queue_id)]


def restarted(harness: BrokerHarness, *, keep_offsets: bool = True) -> BrokerHarness:
    """The same disk under another broker, as after a kill; its tables as they were saved."""
    harness.store.sync()
    disk = harness.disk
    assert isinstance(disk, SimDisk)
    again = BrokerHarness(disk=disk.kill())
    again.clock.now, again.clock.wall = harness.clock.now, harness.clock.wall
    again.topic("T")
    if keep_offsets:
        again.node.offsets.load(harness.node.offsets.content())
    tick(again)
    return again


def producer(harness: BrokerHarness, group: str = "PG") -> Client:
    client = harness.client()
    member = ClientMember(client.session, "c", 0, 401, harness.clock.now, harness.clock.wall)
    harness.node.producers.heartbeat(group, member)
    return client


def check_of(client: Client) -> tuple[Command, record.StoredMessage]:
    data = b"".join(map(bytes, client.session.pop_outbox()))
    (frame,) = FrameReader().feed(data)
    command = decode(frame.header, frame.binary, bytes(frame.body))
    assert command.code == Code.CHECK_TRANSACTION_STATE
    assert command.is_oneway
    return command, record.decode(bytes(command.body))


def answered(check: Command, how: int) -> Command:
    said = ext(check)
    fields = {
        "producerGroup": "PG",
        "tranStateTableOffset": said["tranStateTableOffset"],
        "commitLogOffset": said["commitLogOffset"],
        "commitOrRollback": str(how),
        "fromTransactionCheck": "true",
        "msgId": said["msgId"],
        "transactionId": said["transactionId"],
    }
    return Command(Code.END_TRANSACTION, ext=fields, flag=FLAG_ONEWAY)


class Moody:
    """A route that answers as it is told; what is STORED is appended."""

    def __init__(self, harness: BrokerHarness, *answers: WriteOutcome) -> None:
        self.inner = harness.node.internal_writer.route
        self.answers = list(answers)

    def put(self, drafts: Sequence[Draft], origin: Origin, wall: int, done: Any) -> None:
        outcomes = []
        for draft in drafts:
            outcome = self.answers.pop(0) if self.answers else WriteOutcome.STORED
            if outcome is WriteOutcome.STORED:
                self.inner.put([draft], origin, wall, lambda _: None)
            outcomes.append(outcome)
        done(outcomes)
