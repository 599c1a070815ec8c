"""Reads from a master: its bounds, what it no longer has, what is not a broker of ours."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from epochmq import errors
from epochmq.backup import backup_source as module
from epochmq.backup.backup_source import BackupSource
from epochmq.base.errors import NotFound, NotReachable, Refused, UsageError
from epochmq.client.aio import Admin
from epochmq.testing import MiniCluster
from epochmq.testing.mini_cluster import CLUSTER, GROUP, broker_context
from epochmq.wire.codes import ResponseCode

from .backing import send

T = TypeVar("T")


def with_source(cluster: MiniCluster, work: Callable[[BackupSource], Awaitable[T]]) -> T:
    async def run() -> T:
        async with Admin(cluster.namesrv) as admin:
            return await work(BackupSource(admin, CLUSTER, GROUP))

    return asyncio.run(run())


def test_log_and_bounds() -> None:
    async def work(source: BackupSource) -> None:
        bounds = await source.bounds()
        assert (bounds.start, bounds.confirmed > 0) == (0, True)
        part = await source.log(0, 100)
        assert (len(part.data), part.next_offset) == (100, 100)
        assert (await source.log(bounds.confirmed, 100)).data == b""
        assert await source.file_bytes() == int(options["mappedFileSizeCommitLog"])
        assert source.changes == 1

    options = {"mappedFileSizeCommitLog": "65536"}
    with MiniCluster(options=options) as cluster:
        send(cluster, 0, 10)
        with_source(cluster, work)


def test_an_offset_that_the_master_has_not_confirmed_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETRY_FOR_S", 0.3)

    async def work(source: BackupSource) -> None:
        await source.bounds()
        with pytest.raises(NotReachable, match=r"has confirmed its log up to [\d,]+ only"):
            await source.log(1 << 40, 100)

    with MiniCluster() as cluster:
        send(cluster, 0, 1)
        with_source(cluster, work)


def test_an_offset_before_the_log_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(source: BackupSource) -> None:
        pointers = broker_context(cluster).store.pointers
        monkeypatch.setattr(pointers, "start", 50)
        try:
            with pytest.raises(NotFound, match="has deleted its log before 50"):
                await source.log(-1, 100)
        finally:
            monkeypatch.undo()

    with MiniCluster() as cluster:
        send(cluster, 0, 1)
        with_source(cluster, work)


def test_a_refusal_that_may_not_pass_is_raised_at_once() -> None:
    async def refuse(address: str) -> None:
        calls.append(address)
        raise Refused(ResponseCode.NO_PERMISSION, "no")

    async def work(source: BackupSource) -> None:
        with pytest.raises(errors.Refused):
            await source.ask(refuse)

    calls: list[str] = []
    with MiniCluster() as cluster:
        with_source(cluster, work)
    assert len(calls) == 1


def test_a_broker_of_rocketmq_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def unknown(*_: object) -> None:
        raise Refused(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, "request type 34005 not supported")

    async def work(source: BackupSource) -> None:
        monkeypatch.setattr(source._calls, "digests", unknown)
        with pytest.raises(UsageError, match="is not EpochMQ's"):
            await source.bounds()

    with MiniCluster() as cluster:
        with_source(cluster, work)
