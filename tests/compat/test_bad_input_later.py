"""Bad input to what is moved on later: upstream's codes, and nothing is lost by it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from . import hostile
from .hostile import Case, Line, check_case, each_case, send_ext
from .peers.epochmq import EpochCluster
from .peers.wire import Answer

SEND_V2, END, POP, ACK, HIDE, PULL = 310, 37, 200050, 200051, 200053, 11
HALF, COMMIT = 4, 8
DAY_S = 86_400
INVISIBLE_MS = 500
POPPED = "Popped"


@pytest.fixture(scope="module")
def ours() -> Iterator[EpochCluster]:
    with EpochCluster() as cluster:
        hostile.create_topic(cluster)
        hostile.create_topic(cluster, POPPED)
        yield cluster


@pytest.fixture(autouse=True)
def _no_harm(ours: EpochCluster) -> Iterator[None]:
    yield from hostile.watched(ours)


def _timed(**properties: object) -> dict[str, object]:
    return send_ext(i="".join(f"{name}\x01{value}\x02" for name, value in properties.items()))


@each_case(
    Case("too far", SEND_V2, _timed(TIMER_DELAY_SEC=3 * DAY_S + 60), 13, "timer message", b"x"),
    Case("far too far", SEND_V2, _timed(TIMER_DELIVER_MS=2**63 - 1), 13, "timer message", b"x"),
    Case("no number", SEND_V2, _timed(TIMER_DELAY_MS="soon"), 13, "timer message", b"x"),
    Case(
        "takes back the past", SEND_V2,
        _timed(TIMER_DELIVER_MS=1, TIMER_DEL_UNIQKEY="k"), 13, "timer message", b"x",
    ),
    Case("a level beyond", SEND_V2, _timed(DELAY=2**31), 0, "", b"x"),
)  # fmt: skip
def test_delays_out_of_range(ours: EpochCluster, case: Case) -> None:
    check_case(ours.broker_addr, case)


def _half(line: Line) -> Answer:
    properties = "TRAN_MSG\x01true\x02PGROUP\x01Mine\x02UNIQ_KEY\x01K\x02"
    answer = line.ask(SEND_V2, send_ext(a="Mine", e=1, f=HALF, i=properties), b"half")
    assert answer.code == 0, answer
    return answer


def _end(half: Answer, **more: object) -> dict[str, object]:
    message_id = half.ext["msgId"]
    return {
        "producerGroup": "Mine", "tranStateTableOffset": half.ext["queueOffset"],
        "commitLogOffset": int(message_id[-16:], 16), "commitOrRollback": COMMIT,
        "fromTransactionCheck": "false", "msgId": "K", "transactionId": "K", **more,
    }  # fmt: skip


def test_ends_of_what_is_none_of_theirs_leave_the_transaction_open(ours: EpochCluster) -> None:
    with Line(ours.broker_addr) as line:
        half = _half(line)
        place = int(half.ext["queueOffset"])
        for more, remark in (
            ({"producerGroup": "Other"}, "producer group wrong"),
            ({"commitLogOffset": 0}, "commit log offset wrong"),
            ({"tranStateTableOffset": place + 9}, "Find prepared transaction message failed"),
            ({"tranStateTableOffset": -1}, ""),
            ({"transactionId": "L", "msgId": "L"}, "not of transaction"),
            ({"commitOrRollback": 3}, "commitOrRollback"),
        ):
            answer = line.ask(END, _end(half, **more))
            assert (answer.code, remark in answer.remark) == (1, True), (more, answer)
        assert line.ask(END, _end(half)).code == 0
        line.check_serves()
        assert b"half" in _taken(line, 1).body


def _taken(line: Line, queue_id: int) -> Answer:
    """What a queue has, once it has anything."""
    until = time.monotonic() + 60
    ext = hostile.pull_ext(queueId=queue_id)
    while (answer := line.ask(PULL, ext)).code != 0 and time.monotonic() < until:
        time.sleep(0.05)
    return answer


def _popped(line: Line, invisible_ms: int) -> Answer:
    """The one message of the topic, once it is to be had."""
    until = time.monotonic() + 60
    while True:
        fields = {
            "consumerGroup": "Poppers", "topic": POPPED, "queueId": -1, "maxMsgNums": 1,
            "invisibleTime": invisible_ms, "pollTime": 2_000,
            "bornTime": int(time.time() * 1000), "initMode": 0,
        }  # fmt: skip
        answer = line.ask(POP, fields)
        if answer.code == 0 or time.monotonic() > until:
            assert (answer.code, b"popped" in answer.body) == (0, True), answer
            return answer


def test_handles_that_are_forged_foreign_or_over_acknowledge_nothing(ours: EpochCluster) -> None:
    with Line(ours.broker_addr) as line:
        assert line.ask(SEND_V2, send_ext(POPPED, e=2), b"popped").code == 0
        told = _popped(line, INVISIBLE_MS).ext
        name = ours.broker_name
        good = ["0", told["popTime"], told["invisibleTime"], told["reviveQid"], "0", name, "2", "0"]

        def say(*changes: tuple[int, str], code: int = ACK) -> Answer:
            fields = list(good)
            for at, value in changes:
                fields[at] = value
            return line.ask(code, _ack(" ".join(fields)))

        for code in (ACK, HIDE):
            assert line.ask(code, _ack("forged")).code == 13
            for change in ((5, "elsewhere"), (3, "77"), (6, "1"), (7, "5")):
                answer = say(change, code=code)
                assert (answer.code, bool(answer.remark)) == (13, True), (change, answer)
        _popped(line, 60_000)
        assert say().code == 208
        line.check_serves()


def _ack(handle: str) -> dict[str, object]:
    return {
        "consumerGroup": "Poppers", "topic": POPPED, "queueId": 2, "extraInfo": handle, "offset": 0,
        "invisibleTime": 1000,
    }  # fmt: skip
