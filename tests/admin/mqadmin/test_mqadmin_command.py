"""The group: every command has help, is found whatever its case, and takes options as upstream."""

import pytest
from tests.admin.world import TOPIC, World

from epochmq.admin.mqadmin.mqadmin_command import COMMANDS, SECTIONS, command


def test_every_command_stands_in_one_section() -> None:
    listed = [name for names in SECTIONS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Cluster", "deleteKvConfig"),
        ("Controllers and replicas", "cleanBrokerMetadata"),
        ("Topics", "updateTopic"),
        ("Consumer groups", "consumerConnection"),
        ("Messages", "queryMsgById"),
        ("Users and policies", "createUser"),
    ],
)
def test_commands_stand_below_the_right_title(title: str, name: str) -> None:
    assert name in SECTIONS[title]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_explains_itself(world: World, name: str) -> None:
    ran = world.mqadmin("help", name)
    assert ran.code == 0
    assert ran.lines[0] == f"Usage: epochmq mqadmin {name} [OPTIONS]"
    assert "--namesrvAddr" in ran.out


def test_the_group_explains_itself(world: World) -> None:
    assert "consumerProgress" in world.mqadmin("help").out
    assert world.mqadmin("--help").out == world.mqadmin("help").out


def test_names_in_any_case_and_near_misses(world: World) -> None:
    assert world.mqadmin("TOPICLIST").code == 0
    ran = world.mqadmin("topicLst")
    assert (ran.code, "did you mean 'topicList'?" in ran.err) == (2, True)


def test_long_options_with_one_dash(world: World) -> None:
    expected = world.mqadmin("topicRoute", "-t", TOPIC, "-l").out
    assert world.mqadmin("topicRoute", "-topic", TOPIC, "-list").out == expected
    assert world.mqadmin("topicRoute", f"-topic={TOPIC}", "-l").out == expected
    assert world.mqadmin("topicRoute", f"-t{TOPIC}", "-l").out == expected


def test_json_for_commands_that_use_the_letter_otherwise(world: World) -> None:
    args = ("queryMsgByOffset", "-t", TOPIC, "-b", "broker-a", "-i", "0", "-o", "0")
    (row,) = world.mqadmin("-o", "json", *args).rows
    (same,) = world.mqadmin(*args, "--output", "json").rows
    assert row == same
    assert row["body"] == "body-0"


def test_the_name_server_is_an_option_or_in_the_environment(world: World) -> None:
    assert world.mqadmin("topicList", "-n", "127.0.0.1:1").code == 3
    assert world.mqadmin("topicList", "-n", "nonsense").code == 2
    assert command.name == "mqadmin"
