"""Routes and connections under every client object."""

import pytest

from epochmq.base.errors import NotFound, NotReachable
from epochmq.client.aio.instance import Instance
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request


async def test_an_old_route_outlives_its_name_server(instance: Instance) -> None:
    await instance.ensure_route("TBW102")
    instance.name_servers.addresses[:] = ["127.0.0.1:1"]
    instance.routes.expire("TBW102")
    await instance.ensure_route("TBW102")
    assert instance.routes.masters()
    with pytest.raises(NotReachable):
        await instance.ensure_route("Unknown")


async def test_a_topic_that_nobody_has_is_named(instance: Instance) -> None:
    with pytest.raises(NotFound, match="Unknown"):
        await instance.ensure_route("Unknown")


async def test_a_broker_that_is_away_is_not_reachable(instance: Instance) -> None:
    with pytest.raises(NotReachable, match=r"127\.0\.0\.1:1"):
        await instance.call("127.0.0.1:1", request(RequestCode.HEART_BEAT))
