"""Two brokers that get half messages, delayed ones and ends: with the native code and without."""

from typing import Any

from tests.broker.broker_harness import ext, send
from tests.broker.produce.native_pairs import BUFFER, Pair

from epochmq.model.sys_flag import TX_PREPARED
from epochmq.wire.command import Command, encode_frame

HALF_TEXT = "TRAN_MSG\x01true\x02PGROUP\x01PG"


def text(number: int, more: str, *, first: bool = True) -> str:
    key = f"UNIQ_KEY\x010A0000090BAD18B4AAC2{number:012X}"
    return f"{key}\x02{more}" if first else f"{more}\x02{key}"


def opened(**options: object) -> Pair:
    """Both with a timer, ready to end transactions, and topics that the native code knows."""
    pair = Pair(**options)
    for harness in pair.harnesses:
        harness.node.open_timer()
    pair.topic("T")
    pair.topic("Wide", queues=2, topic_filter_type="MULTI_TAG")
    pair.tick()
    for topic in ("T", "Wide"):
        pair.put(0, send(b"first", topic=topic, properties=text(0, "a\x01b")))
    pair.turn()
    return pair


def settle(pair: Pair, ms: int = 0) -> None:
    for harness in pair.harnesses:
        harness.clock.step(ms)
        harness.store.sync()
    for _ in range(3):
        pair.tick()
        for harness in pair.harnesses:
            harness.store.sync()


def close(pair: Pair) -> None:
    for harness in pair.harnesses:
        if harness.node.timer is not None:
            harness.node.timer.close()
    pair.close()


def taken(pair: Pair, number: int, *commands: Command) -> bool:
    """Give both the same read; whether the native code took all of it."""
    data = b"".join(map(encode_frame, commands))
    size = len(data)
    BUFFER[:size] = data
    harness, client = pair.native, pair.clients[0][number]
    start = harness.sink.receive_raw(client.session, BUFFER, 0, size)
    if start < size:
        harness.sink.receive(
            client.session, client.reader.feed(BUFFER[start:size]), harness.clock.now
        )
    plain = pair.clients[1][number]
    assert pair.plain.sink.receive_raw(plain.session, BUFFER, 0, size) == 0
    pair.plain.sink.receive(plain.session, plain.reader.feed(BUFFER[:size]), pair.plain.clock.now)
    return start == size


def message(opaque: int, more: str, **fields: Any) -> Command:
    made = send(b"body%d" % opaque, properties=text(opaque, more), **fields)
    made.opaque = opaque
    return made


def half(opaque: int, more: str = HALF_TEXT, **fields: object) -> Command:
    return message(opaque, more, **{"sysFlag": TX_PREPARED, "queue_id": opaque % 4, **fields})


def answers(pair: Pair) -> list[Command]:
    """The answers of connection 0, which are the same from both."""
    for harness in pair.harnesses:
        harness.turn()
    told = [clients[0].take() for clients in pair.clients]
    assert [(a.opaque, a.code, ext(a)) for a in told[0]] == [
        (a.opaque, a.code, ext(a)) for a in told[1]
    ]
    for harness in pair.harnesses:
        harness.clock.step(1)
        harness.store.tick(harness.clock.now, harness.clock.wall)
    return told[0]


def halves(pair: Pair) -> list[Command]:
    """Answers to half messages, the same from both, on whatever connection."""
    found = []
    for harness in pair.harnesses:
        harness.turn()
        harness.store.sync()
    for one, other in zip(*pair.clients, strict=True):
        told = [one.take(), other.take()]
        shown = [sorted((a.opaque, a.code) for a in some) for some in told]
        assert shown[0] == shown[1]
        found += [a for a in told[0] if a.ext and a.code == 0 and "transactionId" in a.ext]
    for harness in pair.harnesses:
        harness.clock.step(1)
        harness.store.tick(harness.clock.now, harness.clock.wall)
    return found
