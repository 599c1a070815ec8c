"""`epochmq group`: reading."""

import pytest
from tests.admin.world import OFFLINE, ONLINE, QUEUES, TOPIC, World


def test_list(world: World) -> None:
    with world.member():
        rows = {row["group"]: row for row in world.run("group", "list", "-o", "json").rows}
    assert (rows[OFFLINE]["members"], rows[OFFLINE]["lag"]) == (0, 4)
    assert (rows[ONLINE]["members"], rows[ONLINE]["type"]) == (1, "PUSH")
    assert "TOOLS_CONSUMER" not in rows
    assert "TOOLS_CONSUMER" in world.run("group", "list", "--all").out


def test_show(world: World) -> None:
    (row,) = world.run("group", "show", OFFLINE, "-o", "json").rows
    assert (row["broker"], row["groupName"], row["retryMaxTimes"]) == ("broker-a", OFFLINE, 16)
    lines = [line.split() for line in world.run("group", "show", OFFLINE).lines]
    assert lines[0] == ["SETTING", "BROKER-A"]
    assert ["retryMaxTimes", "16"] in lines


def test_lag(world: World) -> None:
    rows = world.run("group", "lag", OFFLINE, "-t", TOPIC, "-o", "json").rows
    assert [(row["queue"], row["lag"], row["member"]) for row in rows] == [
        (queue.queue_id, 2, None) for queue in QUEUES
    ]
    ran = world.run("group", "lag", OFFLINE)
    assert ran.lines[0].split()[-1] == "MEMBER"
    assert "lag 4, of these in flight 0" in ran.err


def test_members(world: World) -> None:
    with world.member() as client_id:
        (row,) = world.run("group", "members", ONLINE, "-o", "json").rows
    assert (row["member"], row["language"], row["version"]) == (client_id, "PYTHON", "V5_0_0")
    assert row["subscriptions"][TOPIC] == "odd"
    for group in (ONLINE, OFFLINE):
        ran = world.run("group", "members", group)
        assert (ran.code, f"nobody is in group {group} now" in ran.err) == (0, True)


@pytest.mark.parametrize("verb", ["show", "lag", "members"])
def test_a_name_that_is_near(world: World, verb: str) -> None:
    ran = world.run("group", verb, "biling")
    assert ran.code == 5
    assert "there is no group 'biling' (did you mean 'billing'?)" in ran.err


def test_list_sorted_and_filtered(world: World) -> None:
    rows = world.run("group", "list", "--sort", "lag", "-o", "json").rows
    lags = [row["lag"] for row in rows]
    assert lags == sorted(lags, reverse=True)
    rows = world.run("group", "list", "--min-lag", "4", "-o", "json").rows
    assert OFFLINE in [row["group"] for row in rows]
    assert all(row["lag"] >= 4 for row in rows)


def test_list_by_pattern_and_age(world: World) -> None:
    rows = world.run("group", "list", f"{OFFLINE[:3]}*", "--sort", "age", "-o", "json").rows
    assert OFFLINE in [row["group"] for row in rows]
    assert all(row["group"].startswith(OFFLINE[:3]) for row in rows)
    ages = [row["age_s"] for row in rows if row["lag"]]
    assert ages == sorted(ages, reverse=True)
    assert all(0 <= age < 3600 for age in ages)
    assert world.run("group", "list", "no-such-*", "-o", "json").rows == []


def test_list_again_and_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            raise KeyboardInterrupt

    slept: list[float] = []
    monkeypatch.setattr("epochmq.admin.nouns.noun_group._pause", sleep)
    ran = world.run("group", "list", OFFLINE, "--watch", "2.5", "-o", "json")
    assert slept == [2.5] * 3
    assert [row["group"] for row in ran.rows] == [OFFLINE] * 3
    assert ran.code != 0


def test_stacks(world: World) -> None:
    with world.member() as client_id:
        (row,) = world.run("group", "stacks", ONLINE, "-o", "json").rows
        assert (row["member"], row["problem"]) == (client_id, None)
        assert row["stacks"] == "no listener is running"
        ran = world.run("group", "stacks", ONLINE, client_id)
        assert client_id in ran.out
        ran = world.run("group", "stacks", ONLINE, "nobody")
        assert (ran.code, f"group {ONLINE} has no member 'nobody'" in ran.err) == (5, True)
    ran = world.run("group", "stacks", OFFLINE)
    assert (ran.code, f"nobody is in group {OFFLINE} now" in ran.err) == (0, True)
