"""`epochmq topic create`, `update`, `delete`."""

import pytest
from tests.admin.world import World


def test_a_topics_life(world: World) -> None:
    (row,) = world.run(
        "topic", "create", "n1", "--queues", "3", "--type", "fifo", "-o", "json"
    ).rows
    assert (row["broker"], row["read_queues"], row["perm"]) == ("broker-a", 3, "RW-")
    assert row["attributes"] == {"message.type": "FIFO"}
    assert world.run("topic", "create", "n1").code == 2
    (row,) = world.run(
        "topic", "update", "n1", "--write-queues", "1", "--perm", "r", "-o", "json"
    ).rows
    assert (row["read_queues"], row["write_queues"], row["perm"]) == (3, 1, "R--")
    ran = world.run("topic", "delete", "n1", "--yes")
    assert (ran.code, ran.lines[-1].split()) == (0, ["n1", world.broker])
    assert world.run("topic", "show", "n1").code == 5


def test_deleting_asks(world: World) -> None:
    world.run("topic", "create", "n2")
    ran = world.run("topic", "delete", "n2", answer="n\n")
    assert (ran.code, "left as it is" in ran.err) == (1, True)
    assert "Delete n2 with 0 messages?" in ran.err
    ran = world.run("topic", "delete", "n2", answer="")
    assert (ran.code, "add --yes" in ran.err) == (2, True)
    assert world.run("topic", "delete", "n2", answer="y\n").code == 0


def test_what_is_not_there_is_not_deleted(world: World) -> None:
    ran = world.run("topic", "delete", "ordrs", "--yes")
    assert (ran.code, "did you mean 'orders'?" in ran.err) == (5, True)


@pytest.mark.parametrize(
    "args",
    [
        ("create", "a b"),
        ("create", "t", "--queues", "0"),
        ("create", "t", "--type", "x"),
        ("update", "orders"),
        ("delete",),
    ],
)
def test_wrong_use(world: World, args: tuple[str, ...]) -> None:
    assert world.run("topic", *args).code == 2
