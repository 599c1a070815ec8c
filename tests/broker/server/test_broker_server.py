"""A whole broker in this process, driven by raw frames: start, serve, stop, start again."""

import asyncio
import contextlib
import os
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.broker.broker_harness import pull, send
from tests.broker.client import RawClient
from tests.client.aio.eventually import eventually

from epochmq.base.errors import EnvironmentFault, OurBug, PortInUse, StoreDamaged, StoreInUse
from epochmq.broker.config.options import load_options
from epochmq.broker.server import broker_server as service
from epochmq.broker.server.broker_server import Broker, main
from epochmq.model.record import decode_all
from epochmq.nameserver.name_server import NameServer
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime.own_host import free_port
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command


def options(root: Path, **more: Any) -> Any:
    properties = {
        "storePathRootDir": str(root),
        "brokerName": "b",
        "listenPort": "0",
        "mappedFileSizeCommitLog": str(1 << 20),
        "maxMessageSize": "65536",
        "maxIndexNum": "1000",
        "maxHashSlotNum": "100",
        **{name: str(value) for name, value in more.items()},
    }
    return load_options(properties, env={})


@contextlib.asynccontextmanager
async def running(root: Path, **more: Any) -> AsyncIterator[Broker]:
    broker = Broker(options(root, **more))
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop(grace_ms=500)


async def test_send_pull_and_everything_is_there_after_a_restart(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await RawClient.connect(broker.port)
        assert (await client.ask(send(b"one", topic="New"))).code == 0
        client.put(pull(topic="New", sys_flag=1 | 2 | 4, offset=1, commit=1))
        other = await RawClient.connect(broker.port)
        await other.ask(send(b"two", topic="New"))
        answer = await client.next()
        assert [m.body for m in decode_all(bytes(answer.body))] == [b"two"]
        await client.close()
        await other.close()
    assert not (tmp_path / "abort").exists()
    async with running(tmp_path) as broker:
        client = await RawClient.connect(broker.port)
        answer = await client.ask(pull(topic="New"))
        assert [m.body for m in decode_all(bytes(answer.body))] == [b"one", b"two"]
        assert broker.node.offsets.get("G", "New", 0) == 1
        assert broker.node.topics.get("New") is not None
        await client.close()


async def test_a_copy_of_a_stopped_brokers_directory_is_a_backup(tmp_path: Path) -> None:
    async with running(tmp_path / "own") as broker:
        client = await RawClient.connect(broker.port)
        assert (await client.ask(send(b"one", topic="New"))).code == 0
        await client.ask(pull(topic="New", sys_flag=1 | 2 | 4, offset=0, commit=1))
        await client.close()
    shutil.copytree(tmp_path / "own", tmp_path / "copy")
    async with running(tmp_path / "own") as broker:
        client = await RawClient.connect(broker.port)
        assert (await client.ask(send(b"later", topic="New"))).code == 0
        await client.close()
    async with running(tmp_path / "copy") as broker:
        client = await RawClient.connect(broker.port)
        answer = await client.ask(pull(topic="New"))
        assert [m.body for m in decode_all(bytes(answer.body))] == [b"one"]
        assert broker.node.offsets.get("G", "New", 0) == 1
        await client.close()


async def test_synchronous_flush_answers_after_the_sync(tmp_path: Path) -> None:
    async with running(tmp_path, flushDiskType="SYNC_FLUSH") as broker:
        client = await RawClient.connect(broker.port)
        assert (await client.ask(send())).code == 0
        assert broker.node.store.pointers.synced > 0
        client.put(pull(sys_flag=2 | 4, offset=1))
        client.put(send(b"two"))
        answers = [await client.next(), await client.next()]
        assert sorted(answer.opaque for answer in answers) == [2, 3]
        assert all(answer.code == 0 for answer in answers)
        await client.close()


async def test_old_files_go_when_an_operator_shortens_their_time(tmp_path: Path) -> None:
    more = {"flushDiskType": "SYNC_FLUSH", "cleanResourceInterval": 100}
    async with running(tmp_path, **more) as broker:
        client = await RawClient.connect(broker.port)
        for _ in range(20):
            assert (await client.ask(send(bytes(65_000)))).code == 0
        oldest = tmp_path / "commitlog" / ("0" * 20)
        os.utime(oldest, (0, time.time() - 7_200))
        hours = ";".join(map(str, range(24)))
        text = f"fileReservedTime=1\ndeleteWhen={hours}\n".encode()
        assert (await client.ask(Command(Code.UPDATE_BROKER_CONFIG, body=text))).code == 0

        async def start() -> int:
            return broker.node.store.pointers.start

        assert await eventually(start) == 1 << 20
        assert not oldest.exists()
        await client.close()
    async with running(tmp_path) as broker:
        kept = broker.node.store.options
        assert (kept.reserved_hours, kept.delete_when) == (1, tuple(range(24)))


async def test_delayed_messages_come_through(tmp_path: Path) -> None:
    async with running(tmp_path, messageDelayLevel="1s") as broker:
        client = await RawClient.connect(broker.port)
        await client.ask(send(b"later", topic="T", properties={"DELAY": "1"}))
        answer = await client.ask(pull(sys_flag=2 | 4))
        assert [m.body for m in decode_all(bytes(answer.body))] == [b"later"]
        await client.close()
    assert b'"1":1' in (tmp_path / "config" / "delayOffset.json").read_bytes()


async def test_a_held_pull_ends_by_itself(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await RawClient.connect(broker.port)
        await client.ask(send(topic="T"))
        assert (await client.ask(pull(sys_flag=2 | 4, offset=1, suspend_ms=50))).code == 19
        await client.close()


async def test_a_stop_answers_waiting_requests(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await RawClient.connect(broker.port)
        await client.ask(send(topic="T"))
        client.put(pull(sys_flag=2 | 4, offset=1))
        await client.ask(Command(Code.GET_MAX_OFFSET, ext={"topic": "T", "queueId": "0"}))
        assert len(broker.node.long_poll) == 1
    assert (await client.next()).code == 19
    await client.close()


async def test_a_stop_saves_the_last_offsets_and_not_older_ones(tmp_path: Path) -> None:
    """Those that were to be saved once the log is synced: the stop syncs it."""
    async with running(tmp_path, flushIntervalCommitLog=60_000) as broker:
        client = await RawClient.connect(broker.port)
        for offset in (1, 2):
            await client.ask(send(topic="T"))
            broker.node.offsets.commit("g", "T", 0, offset)
            broker._save_offsets()
        broker.node.offsets.commit("g", "T", 0, 3)
        await client.close()
    async with running(tmp_path) as broker:
        assert broker.node.offsets.get("g", "T", 0) == 3


async def test_a_stop_keeps_no_neighbour_waiting(tmp_path: Path) -> None:
    """A broker of the same process waits for replicas here, and goes on (RIP-32)."""
    said: list[bool] = []
    async with running(tmp_path) as broker:
        broker.node.when_kept = lambda end, done: done(False)  # type: ignore[method-assign]
        broker.node.pending_writes.wait(1, said.append)
        assert said == []
    assert said == [False]


async def test_the_fast_port_sends_only(tmp_path: Path) -> None:
    fast = free_port("127.0.0.1")
    async with running(tmp_path, fastListenPort=fast):
        client = await RawClient.connect(fast)
        assert (await client.ask(send(topic="T"))).code == 0
        assert (await client.ask(pull())).code == 3
        await client.close()


async def test_name_servers_know_a_broker_from_its_ready_to_its_stop(tmp_path: Path) -> None:
    server = NameServer(
        NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "ns" / "kv.json"))
    )
    await server.start()
    route = Command(Code.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "TBW102"})
    asker = await RawClient.connect(server.port)
    try:
        async with running(tmp_path / "b", namesrvAddr=f"127.0.0.1:{server.port}") as broker:
            assert (await asker.ask(route)).code == 0
            client = await RawClient.connect(broker.port)
            fields = {
                "topic": "New", "defaultTopic": "TBW102", "readQueueNums": "1",
                "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG",
            }  # fmt: skip
            create = Command(Code.UPDATE_AND_CREATE_TOPIC, ext=fields)
            assert (await client.ask(create)).code == 0
            made = Command(Code.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "New"})
            assert (await asker.ask(made)).code == 0
            await client.close()
        assert (await asker.ask(route)).code == 17
    finally:
        await asker.close()
        await server.stop(100)


# Faults at the start -----------------------------------------------------------------------------


async def test_a_port_in_use_names_it_and_leaves_the_store_free(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as broker:
        other = Broker(options(tmp_path / "b", listenPort=broker.port))
        with pytest.raises(PortInUse, match=str(broker.port)):
            await other.start()
        await other.stop()
    async with running(tmp_path / "b"):
        pass


async def test_a_store_in_use(tmp_path: Path) -> None:
    async with running(tmp_path):
        with pytest.raises(StoreInUse):
            await Broker(options(tmp_path)).start()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
async def test_a_directory_that_may_not_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(EnvironmentFault):
        await Broker(options(tmp_path / "store")).start()


async def test_a_directory_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(EnvironmentFault):
        await Broker(options(tmp_path / "file")).start()


async def test_damaged_metadata_keeps_the_broker_down(tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "topics.json").write_text("{")
    with pytest.raises(StoreDamaged, match=r"topics\.json"):
        await Broker(options(tmp_path)).start()


# Running -----------------------------------------------------------------------------------------


async def test_main_says_when_it_is_ready_and_stops_on_demand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: asyncio.Queue[str] = asyncio.Queue()
    monkeypatch.setattr("builtins.print", lambda text, **_: said.put_nowait(text))
    monkeypatch.setattr(service, "calm_collector", lambda: None)  # it would calm pytest's
    task = asyncio.create_task(main(options(tmp_path)))
    line = await asyncio.wait_for(said.get(), 10)
    assert line.startswith("broker b ready on 127.0.0.1:")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert said.empty()
    assert not (tmp_path / "abort").exists()


def test_the_collector_is_calmed(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[object] = []
    for name in ("collect", "freeze", "set_threshold"):
        monkeypatch.setattr(service.gc, name, lambda *args, name=name: said.append((name, args)))
    service.calm_collector()
    assert said == [("collect", ()), ("freeze", ()), ("set_threshold", (50_000, 20, 50))]


async def test_a_failing_tick_is_logged_and_a_broken_rule_stops_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stopped: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: stopped.set_result(context["exception"])
    )
    async with running(tmp_path) as broker:
        errors: list[Exception] = [ValueError("a slip"), OurBug("a broken rule")]

        def tick(wall: int) -> None:
            raise errors.pop(0)

        monkeypatch.setattr(broker.node.delivery, "tick", tick)
        assert isinstance(await asyncio.wait_for(stopped, 10), OurBug)
    assert "a slip" in caplog.text
