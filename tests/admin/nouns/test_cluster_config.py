"""`epochmq cluster config`."""

import pytest
from tests.admin.world import World

OPTION = "maxTransferCountOnMessageInMemory"


def test_get(world: World) -> None:
    assert world.run("cluster", "config", "get", "brokerName").lines[-1].split() == [
        "brokerName",
        "broker-a",
    ]
    rows = world.run("cluster", "config", "get", "-b", "broker-a", "-o", "json").rows
    assert {"broker": "broker-a", "key": "brokerName", "value": "broker-a"} in rows
    assert world.run("cluster", "config", "get", "-b", world.broker).code == 0


def test_set(world: World) -> None:
    for value in ("33", "32"):
        ran = world.run("cluster", "config", "set", f"{OPTION}={value}", "-o", "json")
        assert ran.rows == [{"broker": "broker-a", "key": OPTION, "value": value}]


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("get", "brokerNam"), 5, "did you mean 'brokerName'?"),
        (("get", "-b", "broker-b"), 5, "did you mean 'broker-a'?"),
        (("get", "-b", "127.0.0.1:1"), 3, "connection refused"),
        (("set", OPTION), 2, "KEY=VALUE"),
        (("set", "brokerName=x"), 2, "brokerName"),
        (("set", "typo=x"), 2, "typo"),
        (("st",), 2, "did you mean 'set'?"),
    ],
)
def test_refusals(world: World, args: tuple[str, ...], code: int, said: str) -> None:
    ran = world.run("cluster", "config", *args)
    assert (ran.code, said in ran.err) == (code, True), ran.err
