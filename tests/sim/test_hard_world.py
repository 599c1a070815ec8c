"""What a lost disk takes along in the world `hard`: what ADR 0064 says may be lost, no more."""

from types import SimpleNamespace
from typing import Any

import pytest
from sim.hard.hard_world import HardInjector, HardWorld
from sim.kernel.faults import Fault
from sim.kernel.host import Host
from sim.kernel.net import Net
from sim.kernel.world import MS


def idle(_host: Host) -> Any:
    return SimpleNamespace(wake=lambda now: None)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_broker_beside_a_lost_disk_keeps_what_its_flush_promises(flush: str) -> None:
    world = HardWorld(1)
    world.syncs = flush == "SYNC_FLUSH"
    world.mates = {"a0": "b1", "b1": "a0"}
    lost, mate = (world.add_host(name, idle) for name in ("a0", "b1"))
    world.start(lost)
    mate.disk.write_file("copied", b"acknowledged by b0, and not on the device")
    HardInjector(world, Net(world))._wipe(Fault(0, "wipe_master", 0, 0, ("a0",), 1))
    assert lost.power_cuts == 1
    assert not mate.up
    assert mate.power_cuts == (1 if world.syncs else 0)
    assert world.syncs or mate.disk.read_file("copied")
    assert world.torn == {"a"}


def test_a_disk_that_was_to_be_lost_later_stays_after_the_heal() -> None:
    """Nothing fails after the heal, from which INV-35 counts."""
    world = HardWorld(1)
    for host in [world.add_host(name, idle) for name in ("a0", "a1")]:
        world.start(host)
    injector = HardInjector(world, Net(world))
    injector._with_role = lambda *_roles: ["a0"]  # type: ignore[method-assign]
    injector.strike(Fault(0, "wipe_cut_off", 0, 10 * MS, ("a1",), 100))
    world.run_until(400 * MS)
    injector.heal()
    world.run_until(600 * MS)
    assert world.hosts["a0"].up
    assert not world.wiped
    assert world.marks["covered.spared"] == 1


def test_all_brokers_of_a_paused_process_are_silent() -> None:
    """Name servers forget both, so a master need not wait for either (ADR 0050)."""
    world = HardWorld(1)
    world.mates = {"a0": "b1", "b1": "a0"}
    for host in [world.add_host(name, idle) for name in ("a0", "b1")]:
        world.start(host)
    injector = HardInjector(world, Net(world))
    injector.strike(Fault(0, "pause", 0, 10 * MS, ("a0",), 1))
    assert world.hosts["b1"].paused
    assert injector.hindered("b1", 0)
    injector.heal()
    world.time_us = 2 * MS
    assert not injector.hindered("b1", MS)
    assert not world.hosts["b1"].paused
