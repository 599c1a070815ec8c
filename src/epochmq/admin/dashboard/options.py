"""Options of the dashboard."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from epochmq.base.errors import ConfigError
from epochmq.base.options import PATH, load, option
from epochmq.model.host import BadAddress, parse_addr
from epochmq.runtime.server_log_options import ServerLogOptions

CLUSTERS_MAX = 50
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


class ShownCluster(NamedTuple):
    """A cluster that the dashboard shows: its name in the pages, and its name servers."""

    name: str
    namesrv: str


@dataclass(frozen=True, kw_only=True)
class DashboardOptions(ServerLogOptions):
    """All options of the dashboard. RocketMQ's dashboard has others, so the names are ours."""

    clusters: str = option(
        "",
        "The clusters to show, each with its name servers: 'prod=10.0.0.1:9876,10.0.0.2:9876;"
        "test=10.0.1.1:9876'. Empty: one cluster, that of namesrvAddr.",
    )
    namesrv_addr: str = option(
        "", "Name servers of the only cluster, as 'host:port;host:port', instead of clusters."
    )
    bind_address: str = option(
        "127.0.0.1",
        "Address to listen on; only this machine by default. Another one needs certPath and"
        " keyPath, or behindTlsProxy.",
    )
    listen_port: int = option(
        8082, "Port of the pages; 0 lets the system choose one.", low=0, high=65535
    )
    cert_path: str = option("", "Certificate (PEM) with which the pages are served.", unit=PATH)
    key_path: str = option("", "Private key (PEM) of that certificate.", unit=PATH)
    behind_tls_proxy: bool = option(
        False, "A proxy before the dashboard speaks TLS with browsers: cookies are for TLS only."
    )
    allowed_hosts: str = option(
        "",
        "Names by which browsers may address the dashboard, separated by commas, besides"
        " bindAddress and, on this machine, localhost.",
    )
    data_dir: str = option(
        "",
        "Directory of the record of actions and of the dead letters that were sent again. Empty:"
        " $XDG_STATE_HOME/epochmq/dashboard, else ~/.local/state/epochmq/dashboard.",
        unit=PATH,
    )
    read_only: bool = option(False, "Show only: no action of the pages is carried out.")
    session_idle_minutes: int = option(
        30, "A login that is not used for this time ends.", low=1, high=1440, unit="min"
    )
    session_hours: int = option(
        12, "A login ends after this time in any case.", low=1, high=168, unit="h"
    )
    use_uvloop: bool = option(True, "Run on uvloop where it is installed.")

    @property
    def uses_tls(self) -> bool:
        """Whether browsers reach the pages by TLS."""
        return bool(self.cert_path) or self.behind_tls_proxy

    def hosts(self) -> frozenset[str]:
        """Return the host names that a request may have, in lower case and without ports."""
        named = {part.strip().lower() for part in self.allowed_hosts.split(",") if part.strip()}
        local = set(_LOOPBACK) if self.bind_address in _LOOPBACK else set()
        return frozenset(named | local | {self.bind_address.lower()})

    def shown_clusters(self) -> list[ShownCluster]:
        """Return the clusters. Raises `ConfigError` with all problems."""
        if not self.clusters:
            servers = self.namesrv_addr
            # The name of the files about it: another cluster must not share them.
            name = servers.replace(":", "-").replace(";", "_")
            return [ShownCluster(name, servers)] if servers else []
        found: list[ShownCluster] = []
        problems = []
        for text in filter(None, (part.strip() for part in self.clusters.split(";"))):
            name, _, servers = text.partition("=")
            addresses = [each.strip() for each in servers.split(",") if each.strip()]
            if not name or not name.replace("-", "").replace("_", "").isalnum() or not addresses:
                problems.append(
                    f"option 'clusters': {text!r} is not a cluster; write NAME=HOST:PORT, as"
                    " prod=10.0.0.1:9876; names have letters, digits, - and _"
                )
                continue
            problems += _bad_addresses("clusters", addresses)
            found.append(ShownCluster(name, ";".join(addresses)))
        names = [each.name for each in found]
        problems += [
            f"option 'clusters' names {name} twice" for name in set(names) if names.count(name) > 1
        ]
        if len(found) > CLUSTERS_MAX:
            problems.append(f"option 'clusters' has more than {CLUSTERS_MAX} clusters")
        if problems:
            raise ConfigError(problems)
        return found

    def check(self) -> None:
        """Raise `ConfigError` with everything that is wrong."""
        problems = []
        if self.clusters and self.namesrv_addr:
            problems.append("options 'clusters' and 'namesrvAddr' exclude each other")
        if bool(self.cert_path) != bool(self.key_path):
            problems.append("options 'certPath' and 'keyPath' need each other")
        if self.bind_address not in _LOOPBACK and not self.uses_tls:
            problems.append(
                f"option 'bindAddress' {self.bind_address}: other machines would send passwords"
                " in plain text; set certPath and keyPath, or behindTlsProxy=true if a proxy"
                " speaks TLS"
            )
        if self.namesrv_addr:
            parts = [each.strip() for each in self.namesrv_addr.split(";") if each.strip()]
            problems += _bad_addresses("namesrvAddr", parts)
        if problems:
            raise ConfigError(problems)
        self.shown_clusters()


def _bad_addresses(key: str, addresses: list[str]) -> list[str]:
    problems = []
    for address in addresses:
        try:
            parse_addr(address)
        except BadAddress as error:
            problems.append(f"option '{key}': {error}")
    return problems


def load_options(
    properties: Mapping[str, str],
    *,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> DashboardOptions:
    """Return the options of a dashboard. Raises `ConfigError` with all problems."""
    (options,) = load((DashboardOptions,), properties, env=env, warn=warn)
    assert isinstance(options, DashboardOptions)
    options.check()
    return options
