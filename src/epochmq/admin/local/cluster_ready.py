"""Whether a cluster can be worked with: asked as a client would ask."""

from collections.abc import Iterable

from epochmq.base.errors import EpochError
from epochmq.client.aio import Admin
from epochmq.client.aio.name_servers import NameServers
from epochmq.model.names import DEFAULT_TOPIC
from epochmq.runtime.peers import Peers
from epochmq.runtime.rng import RealRng

TIMEOUT_MS = 1_000


async def brokers_known(namesrv: str) -> int:
    """How many brokers have registered at the name server; 0 when it does not answer."""
    peers = Peers()
    servers = NameServers(namesrv, peers, RealRng())
    try:
        # Every broker registers the template of new topics, so its route tells that one is there.
        route = await servers.route(DEFAULT_TOPIC)
    except EpochError:
        return 0
    finally:
        await peers.close()
    return sum(len(broker.broker_addrs) for broker in route.broker_datas)


async def all_copied(namesrv: str, brokers: Iterable[str]) -> bool:
    """Whether every slave among `brokers` has its master's tables: it can stand in from then on."""
    async with Admin(namesrv, timeout_ms=TIMEOUT_MS) as admin:
        for address in brokers:
            try:
                figures = await admin.runtime_info(address)
            except EpochError:
                return False
            lacks = figures.get("epochmqMetadataCopied") == "false"
            if lacks and figures.get("epochmqRole") == "SLAVE":
                return False
    return True
