"""Each fault does what its name says and is taken back."""

import pytest
from sim.kernel.faults import Fault, Injector
from sim.kernel.net import Net
from sim.kernel.world import MS, SECOND, World
from tests.sim.test_world import Idle

from epochmq.base.errors import DiskFull, SyncFailed


def setting() -> tuple[World, Net, Injector]:
    world = World(1)
    net = Net(world)
    for name in "abcd":
        world.start(world.add_host(name, lambda h: Idle(h, [])))
    return world, net, Injector(world, net)


def struck(kind: str, hosts: str, size: int = 10) -> tuple[World, Net, Injector]:
    world, net, injector = setting()
    injector.schedule([Fault(0, kind, 10, 5 * MS, tuple(hosts), size)])
    world.run_until(20)
    assert world.marks[f"fault.{kind}"] == 1
    return world, net, injector


def ways(net: Net) -> str:
    return " ".join(a + b for a in "abcd" for b in "abcd" if a != b and not net.passes(a, b))


@pytest.mark.parametrize(
    ("kind", "hosts", "size", "cut"),
    [
        ("cut", "ab", 1, "ab ba"),
        ("cut_one_way", "ba", 1, "ba"),
        ("split", "ab", 1, "ac ad bc bd ca cb da db"),
        ("isolate", "b", 1, "ab cb db"),
        ("isolate", "b", 2, "ab ba bc bd cb db"),
        ("bridge", "ab", 1, "bc bd cb db"),
    ],
)
def test_cuts(kind: str, hosts: str, size: int, cut: str) -> None:
    world, net, _ = struck(kind, hosts, size)
    assert ways(net) == cut
    world.run_until(SECOND)
    assert ways(net) == ""


def test_processes_end_and_come_back() -> None:
    for kind, machine_up in (("kill", True), ("power", False)):
        world, _, _ = struck(kind, "a")
        host = world.hosts["a"]
        assert (host.up, host.machine_up) == (False, machine_up)
        world.run_until(SECOND)
        assert host.up
    world, _, _ = struck("pause", "a")
    assert world.hosts["a"].paused
    world.run_until(SECOND)
    assert not world.hosts["a"].paused


def test_disks_fill_fail_slow_down_and_stop() -> None:
    world, _, _ = struck("full_disk", "a", 1)
    with pytest.raises(DiskFull):
        world.hosts["a"].disk.write_file("f", bytes(9000))
    world.run_until(SECOND)
    world.hosts["a"].disk.write_file("f", bytes(9000))
    world, _, _ = struck("sync_error", "a")
    with pytest.raises(SyncFailed):
        world.hosts["a"].disk.write_file("f", b"x")
    world, _, _ = struck("slow_disk", "a")
    assert world.hosts["a"].slow == 12
    world, _, _ = struck("power_at_write", "a", 2)
    host = world.hosts["a"]
    world.at(30, "write", lambda: host.disk.write_file("f", b"x"), host)
    world.run_until(40)
    assert not host.up
    world.run_until(SECOND)
    assert host.up


def test_heal_ends_everything_at_once() -> None:
    world, net, injector = struck("lossy", "a")
    for number, kind in enumerate(("kill", "split", "pause", "doubling", "slow_link"), 1):
        injector.strike(Fault(number, kind, 0, SECOND, ("a", "b"), 3))
    assert net.weather.loss_permille == 30
    injector.heal()
    assert (net.weather.loss_permille, net.weather.double_permille, ways(net)) == (0, 0, "")
    assert all(host.up and not host.paused for host in world.hosts.values())


def test_the_wall_clock_steps() -> None:
    world, _, _ = struck("clock_step", "a", 99)
    assert world.hosts["a"].wall - world.hosts["b"].wall == 99**2 * 360
