"""How long a call is repeated, and what is not waited for."""

import asyncio
import time

import pytest
from tests.compat.peers import wire
from tests.compat.peers.epochmq import EpochCluster
from tests.compat.peers.process import wait_until
from tests.spark import topics

from epochmq.base.errors import NotFound, NotReachable, Refused
from epochmq.client.aio.admin_client import Admin
from epochmq.spark.retry import Retries, check_passing, is_missing
from epochmq.wire.codes import ResponseCode

pytestmark = pytest.mark.process


def asked(
    namesrv: str, failures: list[Exception], timeout_ms: int = 5_000, topic: str | None = None
) -> int:
    """How many tries `work` needs when the first ones fail like this."""
    tries = 0

    async def work() -> int:
        nonlocal tries
        tries += 1
        if failures:
            raise failures.pop(0)
        return tries

    async def main() -> int:
        async with Admin(namesrv) as admin:
            return await Retries(admin, timeout_ms).ask("asking", work, topic)

    return asyncio.run(main())


def test_what_passes_is_tried_again(cluster: EpochCluster, topic: str) -> None:
    topics.create(cluster.namesrv_addr, topic)
    busy = Refused(ResponseCode.SYSTEM_BUSY, "not now")
    missing = Refused(ResponseCode.TOPIC_NOT_EXIST, "a replica that does not know it yet")
    failures: list[Exception] = [busy, NotReachable("gone"), missing]
    assert asked(cluster.namesrv_addr, failures, topic=topic) == 4


def test_what_does_not_pass_is_not(cluster: EpochCluster, topic: str) -> None:
    with pytest.raises(Refused, match="never"):
        asked(cluster.namesrv_addr, [Refused(ResponseCode.NO_PERMISSION, "never")])
    with pytest.raises(NotFound, match=f"topic {topic} is not there"):
        asked(cluster.namesrv_addr, [], topic=topic)


def test_time_is_up_with_the_last_problem(cluster: EpochCluster) -> None:
    began = time.monotonic()
    many: list[Exception] = [NotReachable(f"try {n}") for n in range(1_000)]
    with pytest.raises(NotReachable, match=r"asking: tried for 0\.\d s, the last time: try"):
        asked(cluster.namesrv_addr, many, timeout_ms=300)
    assert time.monotonic() - began < 5


def is_listed(own: EpochCluster, topic: str) -> bool:
    return wire.call(own.namesrv_addr, 105, {"topic": topic}).code == 0


def test_a_topic_whose_broker_is_down_is_not_gone(topic: str) -> None:
    async def main(own: EpochCluster) -> None:
        async with Admin(own.namesrv_addr) as admin:
            retries = Retries(admin, 1_000)
            await retries.refresh(topic)
            assert not await retries.is_gone(topic)
            own.kill9_broker()
            await asyncio.to_thread(wait_until, lambda: not is_listed(own, topic), 30, "forgotten")
            assert not await retries.is_gone(topic)
            assert await retries.is_gone("another")

    with EpochCluster() as own:
        topics.create(own.namesrv_addr, topic)
        asyncio.run(main(own))


def test_which_refusals_are_which() -> None:
    check_passing(Refused(ResponseCode.SYSTEM_BUSY, ""))
    check_passing(Refused(ResponseCode.TOPIC_NOT_EXIST, ""))
    assert is_missing(NotFound(""))
    assert not is_missing(NotReachable(""))
    with pytest.raises(Refused):
        check_passing(Refused(ResponseCode.SYSTEM_ERROR, ""))
