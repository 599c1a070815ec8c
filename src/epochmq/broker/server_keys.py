"""Options of the broker's listening sockets: RocketMQ's netty server keys that have a meaning here.

EpochMQ differs in one default: `bindAddress` is loopback, because nothing guards an open port until
access control is switched on.
"""

from dataclasses import dataclass

from epochmq.base.options import option
from epochmq.runtime.listen import BACKLOG
from epochmq.runtime.tls import TlsOptions

PORT_MAX = 65535


@dataclass(frozen=True, kw_only=True)
class ServerKeys(TlsOptions):
    bind_address: str = option(
        "127.0.0.1", "Address to listen on; 0.0.0.0 is every interface (RocketMQ's default)."
    )
    listen_port: int = option(10911, "Main port of the broker.", low=0, high=PORT_MAX)
    fast_listen_port: int = option(
        0,
        "Second port, without pulls; 0 is listenPort - 2 as in RocketMQ, -1 is none. EpochMQ's.",
        low=-1,
        high=PORT_MAX,
    )
    server_channel_max_idle_time_seconds: int = option(
        120, "A connection silent for this long is closed.", low=1, high=86_400, unit="s"
    )
    server_socket_backlog: int = option(
        BACKLOG, "Connections that may wait to be accepted.", low=1, high=65_535
    )
    isolate_log_enable: bool = option(
        False, "In a container: what is logged of this broker goes to a file of its own as well."
    )
