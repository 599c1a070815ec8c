"""`epochmq message`."""

import asyncio

import pytest
from tests.admin.world import OFFLINE, TOPIC, World

from epochmq.client.aio import Producer
from epochmq.model.message import Message


def test_by_its_offset_id(world: World) -> None:
    sent = world.sent[1]
    (row,) = world.run("message", "show", sent.offset_msg_id, "-o", "json").rows
    assert (row["msg_id"], row["body"], row["tags"]) == (sent.msg_id, "body-1", "odd")
    assert row["store_host"] == world.broker


def test_by_its_clients_id(world: World) -> None:
    sent = world.sent[2]
    args = ("message", "show", sent.msg_id)
    ran = world.run(*args)
    assert (ran.code, "--topic" in ran.err) == (5, True)
    (row,) = world.run(*args, "-t", TOPIC, "--tracks", "-o", "json").rows
    assert row["body"] == "body-2"
    assert OFFLINE in [track["group"] for track in row["tracks"]]
    lines = world.run(*args, "-t", TOPIC, "--tracks").lines
    assert f"{'msg id:':<28}{sent.msg_id}" in lines
    assert f"{'queue id:':<28}0" in lines
    assert f"{'property UNIQ_KEY:':<28}{sent.msg_id}" in lines
    assert any(line.startswith(f"group {OFFLINE}:") for line in lines)
    assert lines[-2:] == ["", "body-2"]


def test_by_key(world: World) -> None:
    rows = world.run("message", "find", TOPIC, "--key", "all", "-o", "json").rows
    assert [row["body"] for row in rows] == [f"body-{n}" for n in range(6)]
    lines = world.run("message", "find", TOPIC, "-k", "k3", "--since", "1h", "--count", "5").lines
    assert lines[0].split()[:3] == ["MSG_ID", "QUEUE_ID", "QUEUE_OFFSET"]
    assert lines[1].split()[0] == world.sent[3].msg_id
    (row,) = world.run("message", "find", TOPIC, "-u", world.sent[3].msg_id, "-o", "json").rows
    assert row["queue_offset"] == 1


async def delayed(world: World) -> None:
    async with Producer(world.cluster.namesrv_addr, "p") as producer:
        await producer.send(Message(TOPIC, b"later", delay_level=18))


def test_a_delayed_message_is_found_and_told_for_what_it_is(world: World) -> None:
    asyncio.run(delayed(world))
    (row,) = world.run("message", "at", "SCHEDULE_TOPIC_XXXX:17", "0", "-o", "json").rows
    assert (row["state"], row["real_topic"]) == ("delayed, level 18", TOPIC)
    assert row["due_ms"] == row["stored_ms"] + 2 * 3_600_000
    (by_id,) = world.run("message", "show", row["msg_id"], "-t", TOPIC, "-o", "json").rows
    assert (by_id["topic"], by_id["due_ms"]) == ("SCHEDULE_TOPIC_XXXX", row["due_ms"])
    lines = world.run("message", "show", row["offset_msg_id"]).lines
    assert f"{'state:':<28}delayed, level 18" in lines
    assert any(line.startswith("due:") for line in lines)


def test_by_place(world: World) -> None:
    for queue in (f"{TOPIC}:1", f"{TOPIC}@broker-a:1"):
        assert world.run("message", "at", queue, "2").lines[-1] == "body-5"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("show", "0" * 32), 5),
        (("show", "x", "-t", "ordrs"), 5),
        (("find", TOPIC, "-k", "nothing"), 5),
        (("find", TOPIC, "-k", "k1", "--until", "1h"), 5),
        (("find", "ordrs", "-k", "k"), 5),
        (("at", f"{TOPIC}:1", "99"), 5),
        (("at", f"{TOPIC}:9", "0"), 5),
        (("at", f"{TOPIC}@broker-z:0", "0"), 5),
        (("at", TOPIC, "0"), 2),
        (("find", TOPIC), 2),
        (("find", TOPIC, "-k", "k", "-u", "u"), 2),
        (("find", TOPIC, "-k", "k", "--since", "first"), 2),
    ],
)
def test_nothing_found_or_wrong_use(world: World, args: tuple[str, ...], code: int) -> None:
    ran = world.run("message", *args)
    assert (ran.code, ran.out) == (code, "")


def test_what_strangers_wrote_stays_in_its_cell(world: World) -> None:
    body = "one\ntwo\x1b[2J" + "x" * 100
    assert world.mqadmin("sendMessage", "-t", "cells", "-p", body, "-k", "c").code == 0
    _, line = world.run("message", "find", "cells", "-k", "c").lines
    assert line.endswith("  one\\ntwo\\x1b[2J" + "x" * 49)
    (row,) = world.run("message", "find", "cells", "-k", "c", "-o", "json").rows
    assert row["body"] == body
    assert "\x1b" not in world.run("message", "show", row["offset_msg_id"]).out
