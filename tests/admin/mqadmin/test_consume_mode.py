"""`setConsumeMode`, with the words of RocketMQ's tool."""

import pytest
from tests.admin.world import TOPIC, World


def test_on_a_cluster_and_on_one_broker(world: World) -> None:
    args = ("-t", TOPIC, "-g", "popping", "-m", "POP", "-q", "2")
    last = f"topic[{TOPIC}] group[popping] consume mode[POP] popShareQueueNum[2]"
    for where in (("-c", "DefaultCluster"), ("-b", world.broker)):
        ran = world.mqadmin("setConsumeMode", *where, *args)
        assert (ran.code, ran.lines) == (0, [f"set consume mode to {world.broker} success.", last])
    (row,) = world.mqadmin("setConsumeMode", "-b", world.broker, *args, "-o", "json").rows
    assert row == {
        "broker": world.broker,
        "topic": TOPIC,
        "group": "popping",
        "mode": "POP",
        "popShareQueueNum": 2,
    }


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (("-t", TOPIC, "-g", "g", "-m", "POP"), 2),
        (("-b", "B", "-t", TOPIC, "-g", "g"), 2),
        (("-b", "B", "-t", TOPIC, "-g", "g", "-m", "PUSH"), 2),
        (("-b", "B", "-t", "%RETRY%g", "-g", "g", "-m", "POP"), 1),
        (("-b", "B", "-t", "nothing", "-g", "g", "-m", "POP"), 5),
    ],
)
def test_wrong_use(world: World, args: tuple[str, ...], code: int) -> None:
    wanted = [world.broker if word == "B" else word for word in args]
    assert world.mqadmin("setConsumeMode", *wanted).code == code
