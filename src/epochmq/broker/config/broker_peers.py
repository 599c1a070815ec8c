"""Connections of a broker to other servers of its cluster."""

from collections.abc import Callable

from epochmq.auth.server_keys import inner_signer
from epochmq.broker.config.options import BrokerOptions
from epochmq.runtime.peers import CONNECT_TIMEOUT_MS, Peers
from epochmq.runtime.tls import client_tls


def broker_peers(
    options: BrokerOptions,
    *,
    on_close: Callable[[str], None] | None = None,
    connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
) -> Peers:
    """Return connections with the TLS settings of the options, whose requests are signed.

    Args:
        options: the options of the broker.
        on_close: called with the address of each connection that was closed.
        connect_timeout_ms: time for making a connection, in ms.
    """
    return Peers(
        tls=client_tls(options),
        on_close=on_close,
        connect_timeout_ms=connect_timeout_ms,
        signer=inner_signer(options),
    )
