"""Two real brokers, one identity, and a name server: the second does not start."""

from pathlib import Path
from typing import Any

import pytest
from tests.broker.server.test_broker_server import options

from epochmq.base.errors import ConfigError
from epochmq.broker.group import duplicate_id as peers
from epochmq.broker.group.duplicate_id import check_id
from epochmq.broker.server.broker_server import Broker
from epochmq.nameserver.name_server import NameServer
from epochmq.nameserver.options import NamesrvOptions


async def test_a_living_namesake_is_found_and_a_dead_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = NameServer(NamesrvOptions(listen_port=0, kv_config_path=str(tmp_path / "kv.json")))
    await names.start()
    server = f"127.0.0.1:{names.port}"

    def configured(folder: str, **more: Any) -> Any:
        return options(tmp_path / folder, namesrvAddr=server, **more)

    first = Broker(configured("1"))
    await first.start()
    try:
        second = Broker(configured("2"))
        with pytest.raises(ConfigError, match=f"at {first.node.address}; stop it"):
            await second.start()
        shown = names.node.table.brokers.groups["b"].addrs
        assert shown == {0: first.node.address}
        other = Broker(configured("3", brokerId=1, brokerRole="SLAVE"))
        await other.start()
        await other.stop(grace_ms=0)

        # What it was registered as answers no more, or as somebody else: it has moved.
        table = names.node.table.brokers.groups["b"].addrs
        monkeypatch.setattr(peers, "TIMEOUT_MS", 200)
        for gone in ("127.0.0.1:1", server):
            table[0] = gone
            await check_id(first.options, first.node.address)
        await names.stop()
        await check_id(first.options, first.node.address)
    finally:
        await first.stop(grace_ms=0)
        await names.stop()
