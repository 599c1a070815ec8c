"""1009 and 1010: options at runtime."""

from tests.controller.world import World
from tests.nameserver.world import FileDisk

from epochmq.base.java_properties import parse_properties
from epochmq.base.ports import Disk
from epochmq.controller.config_file import ConfigFile

UPDATE, GET = 1009, 1010


def shown(world: World, to: str = "n0") -> dict[str, str]:
    return parse_properties(bytes(world.ask(GET, to=to).body).decode())  # type: ignore[arg-type]


def with_file(world: World) -> FileDisk:
    disk = FileDisk()
    port: Disk = disk  # type: ignore[assignment]
    world.nodes["n0"].core.config = ConfigFile("/x/controller.properties", port)
    return disk


def test_a_change_holds_and_is_kept() -> None:
    world = World()
    disk = with_file(world)
    assert shown(world)["notifyBrokerRoleChanged"] == "true"
    assert world.ask(UPDATE, None, b"notifyBrokerRoleChanged=false\n").code == 0
    assert shown(world)["notifyBrokerRoleChanged"] == "false"
    assert not world.leader.core.context.options.notify_broker_role_changed
    assert disk.files["controller.properties"].endswith(b"\nnotifyBrokerRoleChanged=false\n")


def test_what_cannot_be_kept_is_not_changed() -> None:
    world = World()
    with_file(world).full = True
    assert world.ask(UPDATE, None, b"notifyBrokerRoleChanged=false\n").code == 1
    assert shown(world)["notifyBrokerRoleChanged"] == "true"


def test_nothing_is_changed_when_one_key_may_not_be() -> None:
    world = World()
    for key in ("configStorePath", "controllerStorePath", "configBlackList", "leaseMillis", "x"):
        body = f"notifyBrokerRoleChanged=false\n{key}=1\n".encode()
        assert world.ask(UPDATE, None, body).code == 16
    assert shown(world)["notifyBrokerRoleChanged"] == "true"


def test_a_value_that_cannot_be() -> None:
    world = World()
    assert world.ask(UPDATE, None, b"scanNotActiveBrokerInterval=soon").code == 1
    assert world.ask(UPDATE, None, b"\xff\xfe").code == 1
    assert world.ask(UPDATE, None, b"x=" + b"1" * 300_000).code == 1
    assert world.ask(UPDATE, None, b"").code == 0


def test_the_switch_for_unclean_elections_is_everybodys() -> None:
    world = World(3)
    followers = [name for name, node in world.nodes.items() if node is not world.leader]
    body = b"enableElectUncleanMaster=true"
    assert shown(world, followers[0])["enableElectUncleanMaster"] == "false"
    assert world.ask(UPDATE, None, body, to=followers[0]).code == 2007
    assert world.ask(UPDATE, None, body).code == 0
    world.run(300)
    for name in world.nodes:
        assert shown(world, name)["enableElectUncleanMaster"] == "true"


def test_a_leader_whose_file_says_otherwise_keeps_to_what_was_agreed() -> None:
    world = World(enable_elect_unclean_master=True)
    assert world.leader.core.context.unclean_allowed
    world.stop("n0")
    world.changes["enable_elect_unclean_master"] = False
    world.start("n0")
    world.run(2_000)
    assert world.leader.core.context.unclean_allowed
    assert shown(world)["enableElectUncleanMaster"] == "true"
