"""Pops as a 5.x client asks for them, and its receipt handles built from the answers."""

import base64
from typing import Any, NamedTuple

import msgspec
from tests.broker.broker_harness import BrokerHarness, Client, ext, send

from epochmq.base.unbounded import FOREVER
from epochmq.broker.pop.pop_records import mark_of
from epochmq.model.message import StoredMessage
from epochmq.model.record import decode_all
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command


class Popped(NamedTuple):
    """A message that was handed out, and what acknowledges it."""

    message: StoredMessage
    handle: str
    topic: str

    @property
    def body(self) -> bytes:
        return self.message.body

    @property
    def offset(self) -> int:
        return self.message.queue_offset


def pop(
    *,
    topic: str = "T",
    queue_id: int = -1,
    group: str = "G",
    count: int = 32,
    invisible_ms: int = 60_000,
    poll_ms: int = 0,
    version: int = 401,
    **more: object,
) -> Command:
    fields: dict[str, object] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": queue_id,
        "maxMsgNums": count,
        "invisibleTime": invisible_ms,
        "pollTime": poll_ms,
        "bornTime": 0,
        "initMode": 0,
        **more,
    }
    return command(Code.POP_MESSAGE, version=version, **fields)


def command(code: int, *, version: int = 401, body: bytes = b"", **fields: object) -> Command:
    return Command(
        code,
        ext={name: str(value) for name, value in fields.items() if value is not None},
        body=body,
        language="JAVA",
        version=version,
    )


def popped(answer: Command) -> list[Popped]:
    """What the client makes of an answer."""
    if answer.code:
        return []
    fields = ext(answer)
    starts = _infos(fields["startOffsetInfo"])
    offsets = {
        place: list(map(int, texts.split(",")))
        for place, texts in _infos(fields["msgOffsetInfo"]).items()
    }
    found = []
    for message in decode_all(bytes(answer.body)):
        mark = mark_of(message.topic)
        place = mark, message.queue_id
        assert offsets[place].pop(0) == message.queue_offset
        handle = (
            f"{starts[place]} {fields['popTime']} {fields['invisibleTime']} {fields['reviveQid']}"
            f" {mark} b {message.queue_id} {message.queue_offset}"
        )
        found.append(Popped(message, handle, message.topic))
    assert not any(offsets.values())
    return found


def _infos(text: str) -> dict[tuple[str, int], str]:
    found: dict[tuple[str, int], str] = {}
    for entry in text.split(";"):
        mark, queue_id, value = entry.split(" ")
        assert (mark, int(queue_id)) not in found
        found[mark, int(queue_id)] = value
    return found


def ack(one: Popped, *, group: str = "G", **more: object) -> Command:
    fields: dict[str, object] = {
        "consumerGroup": group,
        "topic": one.topic,
        "queueId": one.message.queue_id,
        "extraInfo": one.handle,
        "offset": one.offset,
        **more,
    }
    return command(Code.ACK_MESSAGE, **fields)


def hide(one: Popped, ms: int, **more: object) -> Command:
    """CHANGE_MESSAGE_INVISIBLETIME."""
    changed = ack(one, invisibleTime=ms, **more)
    changed.code = Code.CHANGE_MESSAGE_INVISIBLETIME
    return changed


class PopHarness(BrokerHarness):
    """A broker without sockets whose POP works are ticked by the test."""

    def __init__(self, *, times: tuple[int, int] | None = None, **more: Any) -> None:
        """`times`: what its clocks say, now and wall, before it does anything."""
        super().__init__(**more)
        if times is not None:
            self.clock.now, self.clock.wall = times
        self.topic("T", queues=1)
        self.tick()

    def tick(self, ms: int = 0) -> None:
        """Time passes, then the broker does what is due."""
        self.clock.step(ms)
        now, wall = self.clock.now, self.clock.wall
        self.node.pop.tick(now, wall, delivers=self.node.serving.delivers)
        self.node.pending_writes.tick(now)
        self.sink.pops.tick(now)
        self.turn()

    def rest(self, ms: int) -> None:
        """The lease is over for as long, and is renewed."""
        self.node.serving.grant_lease(self.clock.now)
        self.tick(ms)
        self.node.serving.grant_lease(FOREVER)

    def put(self, *bodies: bytes, topic: str = "T", queue_id: int = 0, **more: str) -> None:
        client = self.client()
        sent = [
            send(body, topic=topic, queue_id=queue_id, properties={"UNIQ_KEY": "U", **more})
            for body in bodies
        ]
        client.put(*sent)
        self.turn()

    def pop(self, client: Client | None = None, **more: Any) -> list[Popped]:
        answer = (client or self.client()).ask(pop(**more))
        return popped(answer)

    def ack(self, *messages: Popped) -> None:
        for one in messages:
            answer = self.client().ask(ack(one))
            assert answer.code == 0, answer.remark

    def offset(self, queue_id: int = 0, topic: str = "T", group: str = "G") -> int:
        return self.node.offsets.get(group, topic, queue_id)


def entry(one: Popped, *offsets: int, **more: object) -> dict[str, object]:
    """One of a `batch`: the messages at these offsets, of the pop that gave out `one`."""
    start, pop_time, invisible, revive, mark, _, queue, _ = one.handle.split()
    bits = bytearray(-(-(max(offsets, default=0) + 1) // 8))
    for offset in offsets:
        at = offset - int(start)
        bits[at // 8] |= 1 << at % 8
    return {
        "c": "G", "t": "T", "r": mark, "so": int(start), "q": int(queue), "rq": int(revive),
        "pt": int(pop_time), "it": int(invisible), "b": base64.b64encode(bits).decode(), **more,
    }  # fmt: skip


def batch(*entries: dict[str, object]) -> Command:
    """BATCH_ACK_MESSAGE."""
    body = msgspec.json.encode({"brokerName": "b", "acks": list(entries)})
    return command(Code.BATCH_ACK_MESSAGE, body=body)
