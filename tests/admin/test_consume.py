"""`epochmq consume`: usage, filters, pipes, signals."""

import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.admin.shell import shell_in
from tests.admin.world import TOPIC, World


def test_the_whole_topic_in_order(world: World) -> None:
    ended = world.run("consume", TOPIC, "--exit")
    assert ended.code == 0
    assert ended.lines == [f"body-{n}" for n in range(6)]
    assert world.run("consume", TOPIC, "--from", "-1", "--exit").lines == ["body-4", "body-5"]
    assert world.run("consume", TOPIC, "--from", "first", "--count", "2").lines == [
        "body-0",
        "body-1",
    ]


def test_filters(world: World) -> None:
    odd = [f"body-{n}" for n in (1, 3, 5)]
    assert world.run("consume", TOPIC, "--exit", "--tags", "odd || other").lines == odd
    assert world.run("consume", TOPIC, "--exit", "--sql", "TAGS IS NOT NULL").lines == odd


def test_a_group_goes_on_where_it_was(world: World) -> None:
    args = ("consume", TOPIC, "-g", "C_group", "--from", "first", "--exit")
    first = world.run(*args, "--count", "4").lines
    rest = world.run(*args).lines
    assert sorted(first + rest) == [f"body-{n}" for n in range(6)]
    assert len(first) == 4
    assert world.run(*args).lines == []


def test_a_group_pops_and_what_was_not_printed_comes_again(world: World) -> None:
    args = ("consume", TOPIC, "-g", "C_pop", "--pop", "--from", "first", "--exit")
    seen = world.run(*args, "--count", "4").lines
    assert len(seen) == 4
    ends = time.monotonic() + 30  # long before the minute is over for which all were popped
    while len(seen) < 6 and time.monotonic() < ends:
        seen += world.run(*args).lines
    assert sorted(seen) == [f"body-{n}" for n in range(6)]
    assert world.run(*args).lines == []
    shown = set()
    for queue in range(8):
        revive = f"rmq_sys_REVIVE_LOG_DefaultCluster:{queue}"
        for row in world.run("message", "at", revive, "0", "-o", "json").rows:
            shown.add((row["state"], row.get("real_topic"), row.get("group")))
    assert ("POP check point", TOPIC, "C_pop") in shown


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (["NoSuchTopic"], 5, "create it first, or wait for it with --wait"),
        (["NoSuchTopic", "-g", "g", "--exit"], 5, "NoSuchTopic is not known"),
        ([TOPIC, "--from", "frist"], 2, "write first, last, an offset"),
        ([TOPIC, "--pop"], 2, "--pop needs --group"),
        ([TOPIC, "--pop", "--from", "3", "-g", "g"], 2, "--from is first or last"),
        ([TOPIC, "--from", "3", "-g", "g"], 2, "offsets are the group's own"),
        ([TOPIC, "--sql", "a >"], 2, "--sql 'a >'"),
        ([TOPIC, "--tags", "a", "--sql", "b"], 2, "exclude each other"),
        ([TOPIC, "-g", "a b"], 2, "forbidden character"),
        ([TOPIC, "-n", "127.0.0.1:1"], 3, "`epochmq dev` starts one here"),
    ],
)
def test_faults(world: World, args: list[str], code: int, said: str) -> None:
    ended = world.run("consume", *args)
    assert ended.code == code
    assert said in ended.err


@pytest.mark.parametrize("group", [(), ("-g", "C_pipe")])
def test_a_reader_that_leaves_is_no_failure(
    world: World, tmp_path: Path, group: tuple[str, ...]
) -> None:
    topic = f"C_pipe_{len(group)}"
    lines = tmp_path / "lines"
    lines.write_text("line\n\nline\n")
    assert world.run("produce", topic, str(lines)).err.startswith("sent 2 messages")
    with shell_in(tmp_path) as shell:
        where = ("-n", world.cluster.namesrv_addr)
        reader = shell.start("consume", topic, "--from", "first", *group, *where)
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline() == b"line\n"
        reader.stdout.close()
        world.run("produce", topic, str(lines))
        assert reader.wait(20) == 0
        assert reader.stderr.read() == b""
        reader.stdout = None  # for whoever collects the rest


@pytest.mark.parametrize("group", [[], ["-g", "C_early"]])
def test_a_consumer_waits_for_its_topic(world: World, tmp_path: Path, group: list[str]) -> None:
    topic = f"later-{len(group)}"
    with shell_in(tmp_path) as shell:
        at = ["-n", world.cluster.namesrv_addr]
        args = [topic, "--wait", "--count", "2", *at, *group]
        early = shell.start("consume", *args)
        assert not ends_within(early, 1.0)
        code, _, err = shell.run("produce", topic, *at, stdin=b"a\nb\n")
        assert code == 0, err
        assert early.wait(20) == 0
        assert early.stdout is not None
        assert sorted(early.stdout.read().split()) == [b"a", b"b"]
        assert world.run("consume", TOPIC, "--wait", "--exit").lines == [
            f"body-{n}" for n in range(6)
        ]


def ends_within(child: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Whether `child` ends within the time."""
    try:
        child.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def test_ctrl_c_ends_following(world: World, tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        where = ("-n", world.cluster.namesrv_addr)
        follower = shell.start("consume", TOPIC, "--from", "first", *where)
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"body-0\n"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(20) == 0
        assert follower.stderr is not None
        assert follower.stderr.read() == b""
