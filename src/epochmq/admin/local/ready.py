"""Whether a cluster can be worked with: asked as a client would ask."""

from epochmq.base.errors import EpochError
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
