"""Options of a relay."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from epochmq.auth.server_keys import InnerKeys, inner_problems
from epochmq.base import limits
from epochmq.base.errors import ConfigError
from epochmq.base.options import load, option
from epochmq.model.host import BadAddress, parse_addr, split_addresses
from epochmq.runtime.server_log_options import ServerLogOptions
from epochmq.runtime.tls import TlsOptions

T = TypeVar("T")

GROUPS_MAX = 100
"""Broker groups of one relay process."""


class RelayedGroup(NamedTuple):
    """A broker group, and the port at which the relay serves its master."""

    name: str
    port: int


@dataclass(frozen=True, kw_only=True)
class RelayOptions(TlsOptions, InnerKeys, ServerLogOptions):
    """All options of a relay. RocketMQ has no relay, so all names but the shared ones are ours."""

    relay_groups: str = option(
        "",
        "The broker groups, each with the port for its clients: 'broker-a:11911;broker-b:11921'.",
    )
    namesrv_addr: str = option(
        "", "Name servers that list the brokers of the groups, as 'host:port;host:port'."
    )
    broker_cluster_name: str = option("DefaultCluster", "Cluster of the groups.")
    broker_addrs: str = option(
        "",
        "The brokers of the group, as 'host:port;host:port', instead of name servers. Only with one"
        " group in relayGroups.",
    )
    bind_address: str = option(
        "127.0.0.1",
        "Address to listen on; only this machine by default. Set 0.0.0.0 to be reachable from"
        " others.",
    )
    hold_timeout_millis: int = option(
        5_000,
        "How long a request waits for a master before it is answered with SERVICE_NOT_AVAILABLE.",
        low=0,
        high=600_000,
        unit="ms",
    )
    resend_sends: bool = option(
        True,
        "Repeat a send at the new master when the old one died before it answered. The message is"
        " stored twice if the old master had stored it, as after a retry of a client. false: answer"
        " SERVICE_NOT_AVAILABLE, and the client decides.",
    )
    held_bytes_max: int = option(
        256 * 1024 * 1024,
        "Memory for requests without an answer, of all clients together; more are refused as busy.",
        low=limits.FRAME_BYTES_MAX,
        high=1 << 40,
        unit="bytes",
    )
    server_channel_max_idle_time_seconds: int = option(
        120, "A client that is silent for this long is disconnected.", low=1, high=86_400, unit="s"
    )
    use_uvloop: bool = option(True, "Run on uvloop where it is installed.")

    def groups(self) -> list[RelayedGroup]:
        """Return the groups of `relayGroups`. Raises `ConfigError` with all problems."""
        found: list[RelayedGroup] = []
        problems = []
        for text in filter(None, (part.strip() for part in self.relay_groups.split(";"))):
            name, _, port = text.rpartition(":")
            if not name or not port.isascii() or not port.isdigit() or int(port) > 0xFFFF:
                problems.append(
                    f"option 'relayGroups': {text!r} is not a group; write NAME:PORT, as"
                    " broker-a:11911"
                )
                continue
            found.append(RelayedGroup(name, int(port)))
        if not found and not problems:
            problems.append("option 'relayGroups' is missing; write NAME:PORT, as broker-a:11911")
        names, ports = [one.name for one in found], [one.port for one in found if one.port]
        problems += [f"option 'relayGroups' names group {name} twice" for name in _twice(names)]
        problems += [f"option 'relayGroups' names port {port} twice" for port in _twice(ports)]
        if len(found) > GROUPS_MAX:
            problems.append(f"option 'relayGroups' has more than {GROUPS_MAX} groups")
        if problems:
            raise ConfigError(problems)
        return found

    def check(self) -> None:
        """Raise `ConfigError` with everything that is wrong."""
        groups = self.groups()
        problems = inner_problems(self)
        if self.broker_addrs and len(groups) > 1:
            problems.append("option 'brokerAddrs' needs a relay of one group; use namesrvAddr")
        if not self.broker_addrs and not self.namesrv_addr:
            problems.append(
                "option 'namesrvAddr' is missing: the relay asks name servers for the brokers of"
                " its groups; or set brokerAddrs"
            )
        for key, text in (("namesrvAddr", self.namesrv_addr), ("brokerAddrs", self.broker_addrs)):
            for address in split_addresses(text):
                try:
                    parse_addr(address)
                except BadAddress as error:
                    problems.append(f"option '{key}': {error}")
        if problems:
            raise ConfigError(problems)


def _twice(values: list[T]) -> list[T]:
    return [value for value, count in Counter(values).items() if count > 1]


def load_options(
    properties: Mapping[str, str],
    *,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> RelayOptions:
    """Return the options of a relay from properties. Raises `ConfigError` with all problems."""
    (options,) = load((RelayOptions,), properties, env=env, warn=warn)
    assert isinstance(options, RelayOptions)
    options.check()
    return options
