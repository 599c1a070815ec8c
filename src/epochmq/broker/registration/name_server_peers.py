"""Asks, before a broker is seen, whether its id is somebody else's (namesake.py)."""

import asyncio

from epochmq.base.errors import ConfigError, EpochError
from epochmq.broker.options import BrokerOptions
from epochmq.broker.registration.duplicate_id import (
    is_duplicate_id,
    problem,
    registered,
    who_are_you,
    who_is_registered,
)
from epochmq.broker.replica_keys import addresses
from epochmq.runtime.peers import Peers
from epochmq.runtime.tls import client_tls
from epochmq.wire.command import Command

TIMEOUT_MS = 1_000
"""A start waits no longer for a name server, nor for the one that may have our id."""


async def check_id(options: BrokerOptions, address: str) -> None:
    """`ConfigError` when a broker at another address than ours answers under our name and id.

    Name servers that do not answer say nothing, and keep nobody from starting.
    """
    own = (options.broker_cluster_name, options.broker_name, options.broker_id)
    peers = Peers(connect_timeout_ms=TIMEOUT_MS, tls=client_tls(options))
    try:
        servers = addresses(options.namesrv_addr)
        answers = await asyncio.gather(*(_ask(peers, at, who_is_registered()) for at in servers))
        found = {registered(answer, own) for answer in answers if answer is not None}
        for other in sorted(at for at in found if at is not None and at != address):
            answer = await _ask(peers, other, who_are_you())
            if answer is not None and is_duplicate_id(answer, own):
                raise ConfigError([problem(other, own)])
    finally:
        await peers.close()


async def _ask(peers: Peers, address: str, command: Command) -> Command | None:
    try:
        return await peers.invoke(address, command, TIMEOUT_MS)
    except EpochError:
        return None
