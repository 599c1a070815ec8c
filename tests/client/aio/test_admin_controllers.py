"""Calls about controllers, to nodes that are none; the others in tests/admin/mqadmin."""

import pytest

from epochmq.base.errors import NotReachable, Refused
from epochmq.client.aio import Admin


async def test_a_name_server_is_no_controller(namesrv: str) -> None:
    async with Admin(namesrv) as admin:
        with pytest.raises(Refused):
            await admin.controller_leader(namesrv)
        with pytest.raises(Refused):
            await admin.timeline(namesrv)
        with pytest.raises(NotReachable):
            await admin.controller_config("127.0.0.1:1")
