"""Registrations over real sockets: bodies, retries, farewells, who waits for news."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness

import epochmq.broker.group.registration as registration
from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.group.registrar import Registrar
from epochmq.broker.group.registration import PERIOD_MIN_MS
from epochmq.broker.serving.roles import Role
from epochmq.model.crc import crc32
from epochmq.model.data_version import DataVersion
from epochmq.runtime.clock import RealClock
from epochmq.runtime.own_host import free_port
from epochmq.runtime.server import RemotingServer
from epochmq.wire.bodies.body import decode_body
from epochmq.wire.bodies.namesrv_bodies import RegisterBrokerBody
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.dispatcher import Dispatcher
from epochmq.wire.session import Session


class FakeNameServer:
    """Remembers what it was told; answers `code`."""

    def __init__(self) -> None:
        self.port = free_port("127.0.0.1")
        self.address = f"127.0.0.1:{self.port}"
        self.told: asyncio.Queue[Command] = asyncio.Queue()
        self.code = 0
        self.sessions: list[Session] = []
        self._server = RemotingServer()
        handlers = {Code.REGISTER_BROKER: self._hear, Code.UNREGISTER_BROKER: self._hear}
        self._sink = Dispatcher(handlers)

    async def start(self) -> None:
        await self._server.start("127.0.0.1", self.port, self._sink)

    async def stop(self) -> None:
        await self._server.stop(100)

    def _hear(self, command: Command, session: Session, now: int) -> Reply | Held:
        self.sessions.append(session)
        self.told.put_nowait(command)
        return Reply(self.code, "no" if self.code else None)

    async def registered(self) -> tuple[dict[str, str], RegisterBrokerBody]:
        command = await asyncio.wait_for(self.told.get(), 30)
        assert command.code == Code.REGISTER_BROKER
        assert command.ext is not None
        assert int(command.ext["bodyCrc32"]) == crc32(bytes(command.body))
        return command.ext, decode_body(RegisterBrokerBody, command.body)


@pytest.fixture
async def server() -> AsyncIterator[FakeNameServer]:
    server = FakeNameServer()
    await server.start()
    yield server
    await server.stop()


def node_for(*addresses: str, **options: object) -> BrokerContext:
    harness = BrokerHarness(namesrv_addr=";".join(addresses), **options)
    harness.node.clock = RealClock()
    return harness.node


async def until_settled(registrar: Registrar, node: BrokerContext) -> None:
    settled = asyncio.Event()
    registrar.when_settled(node.clock.now_ms(), settled.set)
    await asyncio.wait_for(settled.wait(), 30)


async def test_all_topics_at_start_then_changes_alone(server: FakeNameServer) -> None:
    node = node_for(server.address, broker_ip2="127.0.0.9", ha_listen_port=5)
    registrar = Registrar(node)
    registrar.tick(node.clock.now_ms())
    await registrar.wait_registered()
    fields, body = await server.registered()
    assert fields["brokerName"] == "b"
    assert fields["brokerAddr"] == "127.0.0.1:10911"
    assert fields["clusterName"] == "c"
    assert fields["brokerId"] == "0"
    assert fields["haServerAddr"] == "127.0.0.9:5"
    assert fields["enableActingMaster"] == "false"
    wrapper = body.topic_config_serialize_wrapper
    assert set(wrapper.topic_config_table) == set(node.topics.table)
    assert registrar.statistics() == {"servers": 1, "known": 1}

    node.topics.ensure("New", 2, 6, 5)
    registrar.tick(node.clock.now_ms())
    assert node.topics.changed  # nobody is told of what a crash could take away
    node.keeper.save(0, 0)
    await until_settled(registrar, node)
    _, body = await server.registered()
    wrapper = body.topic_config_serialize_wrapper
    assert list(wrapper.topic_config_table) == ["New"]
    assert wrapper.data_version == node.topics.version

    registrar.everything_changed()
    await until_settled(registrar, node)
    _, body = await server.registered()
    assert len(body.topic_config_serialize_wrapper.topic_config_table) > 1

    await registrar.stop()
    farewell = await asyncio.wait_for(server.told.get(), 30)
    assert farewell.code == Code.UNREGISTER_BROKER
    assert farewell.ext == {
        "brokerName": "b", "brokerAddr": "127.0.0.1:10911", "clusterName": "c", "brokerId": "0",
    }  # fmt: skip
    registrar.tick(node.clock.now_ms())
    assert server.told.empty()


async def test_many_topics_are_registered_in_parts(
    server: FakeNameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part under a version of its own: name servers apply what they know only then."""
    monkeypatch.setattr(registration, "PART_TOPICS", 10)
    node = node_for(server.address)
    for number in range(25):
        node.topics.ensure(f"T{number}", 1, 6, 5)
    node.keeper.save(0, 0)
    registrar = Registrar(node)
    registrar.tick(node.clock.now_ms())
    await until_settled(registrar, node)
    found: list[str] = []
    versions: list[DataVersion] = []
    while not server.told.empty():
        fields, body = await server.registered()
        assert fields["isPart"] == "true"
        wrapper = body.topic_config_serialize_wrapper
        assert 1 < len(wrapper.topic_config_table) <= 10 or found
        found += wrapper.topic_config_table
        versions.append(wrapper.data_version)
    assert sorted(found) == sorted(node.topics.table)
    assert len(set(versions)) == len(versions) == -(-len(found) // 10)
    assert versions[-1] == node.topics.version
    assert registrar.is_registered

    node.topics.register_all(6)  # the broker's permission was changed: changes of all topics
    await until_settled(registrar, node)
    sizes = []
    while not server.told.empty():
        _, body = await server.registered()
        sizes.append(len(body.topic_config_serialize_wrapper.topic_config_table))
    assert sum(sizes) == len(found)
    assert max(sizes) == 10
    await registrar.stop()


async def test_a_refused_part_is_a_failed_registration(
    server: FakeNameServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "PART_TOPICS", 5)
    node = node_for(server.address)
    registrar = Registrar(node)
    server.code = 1
    registrar.tick(node.clock.now_ms())
    await registrar.wait_registered()
    assert server.told.qsize() == 1, "the other parts are not sent"
    assert not registrar.is_registered
    await registrar.stop()


async def test_topics_show_no_more_than_the_broker_allows(server: FakeNameServer) -> None:
    node = node_for(server.address, broker_permission=4)
    node.topics.ensure("T", 2, 6, 5)
    registrar = Registrar(node)
    registrar.tick(node.clock.now_ms())
    _, body = await server.registered()
    table = body.topic_config_serialize_wrapper.topic_config_table
    assert table["T"].perm == 4
    assert table["TBW102"].perm == 5
    await registrar.stop()


async def test_a_name_server_that_is_away_holds_nobody_up(
    server: FakeNameServer, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = f"127.0.0.1:{free_port('127.0.0.1')}"
    node = node_for(nobody, server.address, register_broker_timeout_mills=500)
    registrar = Registrar(node)
    await until_settled(registrar, node)
    assert registrar.statistics() == {"servers": 2, "known": 1}
    assert f"cannot register at name server {nobody}" in caplog.text
    deadline = registrar.next_deadline()
    assert deadline is not None
    await registrar.stop()


async def test_a_refusal_is_reported_once_and_tried_again(
    server: FakeNameServer, caplog: pytest.LogCaptureFixture
) -> None:
    server.code = 1
    node = node_for(server.address)
    registrar = Registrar(node)
    await until_settled(registrar, node)
    registrar.everything_changed()
    await until_settled(registrar, node)
    assert caplog.text.count("refused with 1 no") == 1
    await registrar.stop()


async def test_a_refusal_after_silence_is_reported_too(
    server: FakeNameServer, caplog: pytest.LogCaptureFixture
) -> None:
    registrar = Registrar(node_for(server.address))
    for outcome in ("not reachable", "refused", "refused", "not reachable"):
        registrar._report("n:1", outcome, f"it is {outcome}")
    said = [record.message.rpartition(" is ")[2] for record in caplog.records]
    assert said == ["not reachable", "refused", "not reachable"]
    await registrar.stop()


async def test_a_broken_connection_means_registering_again(server: FakeNameServer) -> None:
    node = node_for(server.address)
    registrar = Registrar(node)
    await until_settled(registrar, node)
    await server.registered()
    later = registrar.next_deadline()
    assert later is not None
    closed = asyncio.Event()
    peer = registrar._peers.find(server.address)
    assert peer is not None
    peer.on_close.append(lambda _: closed.set())
    server.sessions[0].close("the test says so")
    await asyncio.wait_for(closed.wait(), 30)
    sooner = registrar.next_deadline()
    assert sooner is not None
    assert sooner < later
    await registrar.stop()


async def test_a_change_during_a_call_is_registered_before_its_waiters_return(
    server: FakeNameServer,
) -> None:
    node = node_for(server.address)
    registrar = Registrar(node)
    registrar.tick(node.clock.now_ms())
    node.topics.ensure("During", 1, 6, 5)
    node.keeper.save(0, 0)
    registrar.tick(node.clock.now_ms())
    await until_settled(registrar, node)
    told = [(await server.registered())[1] for _ in range(server.told.qsize())]
    assert "During" in told[-1].topic_config_serialize_wrapper.topic_config_table
    await registrar.stop()


async def test_a_stop_releases_all_waiters(server: FakeNameServer) -> None:
    node = node_for(server.address)
    registrar = Registrar(node)
    released = []
    registrar.when_settled(node.clock.now_ms(), lambda: released.append(True))
    assert released == []
    await registrar.stop()
    assert released == [True]


async def test_without_name_servers_nothing_waits() -> None:
    node = node_for()
    registrar = Registrar(node)
    node.topics.ensure("T", 1, 6, 5)
    node.keeper.save(0, 0)
    await until_settled(registrar, node)
    assert registrar.next_deadline() is None
    await registrar.stop()


async def test_an_acting_group_says_how_long_it_may_be_silent(server: FakeNameServer) -> None:
    """Else a name server waits 120 s."""
    node = node_for(
        server.address, enable_slave_acting_master=True, broker_not_active_timeout_millis=5_000
    )
    registrar = Registrar(node)
    registrar.tick(node.clock.now_ms())
    await registrar.wait_registered()
    fields, _ = await server.registered()
    assert fields["enableActingMaster"] == "true"
    assert fields["heartbeatTimeoutMillis"] == "5000"
    registrar.again(server.address)
    _, body = await server.registered()
    assert len(body.topic_config_serialize_wrapper.topic_config_table) > 1
    await registrar.stop()


async def test_a_changed_period_is_heeded(server: FakeNameServer) -> None:
    node = node_for(server.address)
    registrar = Registrar(node)
    await until_settled(registrar, node)
    await until_settled(registrar, node)
    before = registrar.next_deadline()
    node.options = dataclasses.replace(node.options, register_name_server_period=PERIOD_MIN_MS)
    now = node.clock.now_ms()
    registrar.tick(now)
    assert before is not None
    assert registrar.next_deadline() == min(before, now + PERIOD_MIN_MS)
    assert registrar._core._period_ms == PERIOD_MIN_MS
    await registrar.stop()


async def test_a_learner_is_in_no_route(server: FakeNameServer) -> None:
    """No client can read there."""
    node = node_for(server.address)
    become(node, Role.LEARNER)
    registrar = Registrar(node)
    await until_settled(registrar, node)
    assert server.told.empty()
    await registrar.stop()
