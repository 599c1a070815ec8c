"""Real controllers in this process: sockets, disk, clock."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.controller.world import APPLY_ID, ELECT, HEARTBEAT, METADATA, NAMES, REGISTER
from tests.runtime.sinks import until

from epochmq.base.errors import OutOfResources, SyncFailed
from epochmq.controller.options import ControllerOptions
from epochmq.controller.server.controller_server import Controller, EmbeddedController
from epochmq.nameserver.name_server import NameServer
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime.clock import RealClock
from epochmq.runtime.own_host import free_port
from epochmq.runtime.peers import Peer, Peers
from epochmq.runtime.server import RemotingServer
from epochmq.wire.command import Command, Reply, request
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session

HOST = "127.0.0.1"
BEAT = {
    **NAMES,
    "brokerAddr": f"{HOST}:1",
    "brokerId": "1",
    "epoch": "0",
    "maxOffset": "0",
    "leaseWanted": "true",
    "incarnation": "i",
    "session": "s",
}


def options(folder: Path, number: int, ports: list[int], **changes: Any) -> ControllerOptions:
    peers = ";".join(f"n{n}-{HOST}:{port}" for n, port in enumerate(ports))
    fields: dict[str, Any] = {
        "controller_d_leger_group": "g",
        "controller_d_leger_peers": peers,
        "controller_d_leger_self_id": f"n{number}",
        "controller_bootstrap": True,
        "controller_store_path": str(folder / f"n{number}"),
        "config_store_path": str(folder / f"n{number}" / "conf.properties"),
        "election_timeout_millis": 300,
        "raft_heartbeat_millis": 50,
    }
    return ControllerOptions(**(fields | changes))


@asynccontextmanager
async def serving(controller: Controller) -> AsyncIterator[Controller]:
    server = RemotingServer()
    own = controller.options.peers().own_address
    await controller.start()
    try:
        await server.start(HOST, int(own.split(":")[1]), Dispatcher(controller.table()))
        yield controller
    finally:
        await controller.stop()
        await server.stop(200)


@asynccontextmanager
async def three(folder: Path) -> AsyncIterator[list[Controller]]:
    ports = [free_port(HOST) for _ in range(3)]
    made = [Controller(options(folder, number, ports)) for number in range(3)]
    async with serving(made[0]), serving(made[1]), serving(made[2]):
        yield made


async def leader_of(controllers: list[Controller]) -> Controller:
    async with asyncio.timeout(10):
        leading: list[Controller] = []
        while not leading:
            await asyncio.sleep(0)
            leading = [one for one in controllers if one.node.core.context.leads]
        return leading[0]


async def asked(peers: Peers, controller: Controller, command: Command) -> Command:
    return await peers.invoke(controller.options.peers().own_address, command, 5_000)


async def elected(peers: Peers, leader: Controller, address: str) -> None:
    """One broker of ours online, and master."""
    code = {**NAMES, "appliedBrokerId": "1", "registerCheckCode": f"{address};1"}
    assert (await asked(peers, leader, request(APPLY_ID, code))).code == 0
    ext = {**NAMES, "brokerId": "1", "brokerAddress": address, "incarnation": "i", "session": "s"}
    assert (await asked(peers, leader, request(REGISTER, ext))).code == 0
    beat = BEAT | {"brokerAddr": address}
    assert (await asked(peers, leader, request(HEARTBEAT, beat))).code == 0
    assert (await asked(peers, leader, request(ELECT, {**NAMES, "brokerId": "1"}))).code == 0


async def test_three_controllers_agree_and_all_name_the_leader(tmp_path: Path) -> None:
    peers = Peers()
    async with three(tmp_path) as controllers:
        leader = await leader_of(controllers)
        await elected(peers, leader, f"{HOST}:1")
        await until(lambda: len({one.node.machine.state_hash() for one in controllers}) == 1)
        for controller in controllers:
            answer = await asked(peers, controller, request(METADATA))
            assert answer.ext is not None
            assert answer.ext["controllerLeaderAddress"] == leader.options.peers().own_address
        follower = next(one for one in controllers if one is not leader)
        refused = await asked(peers, follower, request(ELECT, {**NAMES, "brokerId": "1"}))
        assert refused.code == 2007
        await peers.close()


async def test_a_lease_is_given_and_notices_arrive(tmp_path: Path) -> None:
    told: list[Command] = []
    heard = asyncio.Event()

    def broker(command: Command, session: Session, now: int) -> Reply:
        told.append(command)
        heard.set()
        return Reply()

    server, peers = RemotingServer(), Peers()
    port = await server.start(HOST, 0, Dispatcher({1008: broker}))
    address = f"{HOST}:{port}"
    ports = [free_port(HOST)]
    async with serving(Controller(options(tmp_path, 0, ports))) as controller:
        await leader_of([controller])
        await elected(peers, controller, address)
        async with asyncio.timeout(5):
            await heard.wait()
        assert told[0].ext is not None
        assert told[0].ext["masterEpoch"] == "1"
        beat = BEAT | {"brokerAddr": address, "epoch": "1"}
        answer = await asked(peers, controller, request(HEARTBEAT, beat))
        assert answer.ext is not None
        assert answer.ext["leaseMillis"] == "2000"
        await until(lambda: controller.node.core.notices.open_count == 0)
        assert len(told) == 1
        await peers.close()
    await server.stop(200)


async def test_a_broker_whose_process_is_gone_is_known_to_be(tmp_path: Path) -> None:
    """Its connection closes, and its port refuses."""
    peers = Peers()
    gone = f"{HOST}:{free_port(HOST)}"
    async with serving(Controller(options(tmp_path, 0, [free_port(HOST)]))) as controller:
        await leader_of([controller])
        await elected(peers, controller, gone)
        live = controller.node.core.context.live.get(("c", "b"), 1)
        assert live is not None
        assert not live.closed
        await peers.close()
        await until(lambda: live.gone)


async def test_a_restart_remembers(tmp_path: Path) -> None:
    ports = [free_port(HOST)]
    hashes = []
    for _ in range(2):
        peers = Peers()
        async with serving(Controller(options(tmp_path, 0, ports))) as controller:
            await leader_of([controller])
            if not hashes:
                await elected(peers, controller, f"{HOST}:1")
            assert (
                await asked(
                    peers, controller, request(1009, None, b"notifyBrokerRoleChanged=false")
                )
            ).code == 0
            hashes.append(controller.node.machine.state_hash())
            assert not controller.node.core.context.options.notify_broker_role_changed
            await peers.close()
    assert hashes[0] == hashes[1]
    assert not Controller(options(tmp_path, 0, ports)).options.notify_broker_role_changed


async def test_no_descriptor_for_the_journal_is_waited_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(Controller(options(tmp_path, 0, [free_port(HOST)]))) as controller:
        await leader_of([controller])
        real = controller.node.pending_sync
        short = 2

        def pending() -> Callable[[], None] | None:
            call = real()

            def write() -> None:
                nonlocal short
                short -= 1
                if short >= 0:
                    raise OutOfResources("cannot open raft/journal: Too many open files")
                assert call is not None
                call()

            return None if call is None else write

        monkeypatch.setattr(controller.node, "pending_sync", pending)
        ext = {**NAMES, "appliedBrokerId": "1", "registerCheckCode": "a;1"}
        peers = Peers()
        assert (await asked(peers, controller, request(APPLY_ID, ext))).code == 0
        assert short < 0
        assert not controller.failed.done()
        await peers.close()


async def test_a_failed_sync_stops_the_controller(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = Peers()
    async with serving(Controller(options(tmp_path, 0, [free_port(HOST)]))) as controller:
        await leader_of([controller])

        def fail() -> None:
            raise SyncFailed("cannot sync")

        real = controller.node.pending_sync

        def pending() -> object:
            return None if real() is None else fail

        monkeypatch.setattr(controller.node, "pending_sync", pending)
        ext = {**NAMES, "appliedBrokerId": "1", "registerCheckCode": "a;1"}
        peer = await Peer.connect(controller.options.peers().own_address)
        waiting = asyncio.create_task(peer.invoke(request(APPLY_ID, ext), 500))
        async with asyncio.timeout(5):
            assert isinstance(await controller.failed, SyncFailed)
        with pytest.raises(Exception, match="did not answer"):
            await waiting
        refused = await asked(peers, controller, request(METADATA))
        assert (refused.code, "has stopped" in str(refused.remark)) == (2007, True)
        peer.close()
        await peers.close()


@pytest.mark.parametrize("shares", [True, False])
async def test_inside_a_name_server(tmp_path: Path, shares: bool) -> None:
    """On its port when the peer list names it, else on one of its own."""
    listen, own = free_port(HOST), free_port(HOST)
    given = options(tmp_path, 0, [listen if shares else own])
    guest = EmbeddedController(given, shared_port=listen)
    kv = str(tmp_path / "kv.json")
    server = NameServer(NamesrvOptions(listen_port=listen, kv_config_path=kv), guest=guest)
    peers = Peers()
    await server.start()
    try:
        await leader_of([guest.controller])
        await elected(peers, guest.controller, f"{HOST}:1")
        routes = await peers.invoke(f"{HOST}:{listen}", request(106), 5_000)
        assert routes.code == 0
        beside = await peers.invoke(f"{HOST}:{listen}", request(METADATA), 5_000)
        assert beside.code == (0 if shares else 3)
    finally:
        await peers.close()
        await server.stop(200)


class SetClock(RealClock):
    """Its wall clock can be set."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.ahead_ms


async def test_a_jump_of_the_wall_clock_ends_the_lease_of_the_leader(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    peers, ports, clock = Peers(), [free_port(HOST) for _ in range(3)], SetClock()
    made = [Controller(options(tmp_path, number, ports), clock=clock) for number in range(3)]
    async with serving(made[0]), serving(made[1]), serving(made[2]):
        leader = await leader_of(made)
        await elected(peers, leader, f"{HOST}:1")
        dropped: list[int] = []
        look = leader.node.look_at_clocks

        def watched(now: int, wall: int) -> bool:
            jumped = look(now, wall)
            if jumped:
                dropped.append(leader.node.raft.lease_until_ms)
            return jumped

        leader.node.look_at_clocks = watched  # type: ignore[method-assign]
        caplog.clear()
        clock.ahead_ms += 5_000
        beat = BEAT | {"epoch": str(leader.node.machine.groups["c", "b"].epoch)}
        answer = await asked(peers, leader, request(HEARTBEAT, beat))
        assert answer.code == 0
        assert dropped == [0]
        assert "the wall clock ran ahead of the monotonic one" in caplog.text
        await until(lambda: leader.node.raft.lease_until_ms > 0)
    await peers.close()
