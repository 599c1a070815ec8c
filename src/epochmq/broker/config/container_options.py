"""Options of a broker container, spelled as in RocketMQ."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from epochmq.auth.server_keys import ServerAuthKeys, server_problems
from epochmq.base.errors import ConfigError
from epochmq.base.options import PATH, load, option
from epochmq.broker.config.ignored_keys import IGNORED
from epochmq.runtime.server_log_options import ServerLogOptions
from epochmq.runtime.tls import TlsOptions

_PORT_MAX = 65_535
_MORE_IGNORED = frozenset({"rmqAddressServerSubGroup", "updateNamesrvAddrInterval"})


@dataclass(frozen=True, kw_only=True)
class ContainerOptions(TlsOptions, ServerAuthKeys, ServerLogOptions):
    """Of the container itself; its brokers have files of their own.

    What is said here of the network holds for all of them: `namesrvAddr` where it is set,
    `bindAddress` and the `tls.` keys always. The keys of authentication are those of the
    container's own port; each broker has its own.
    """

    broker_config_paths: str = option(
        "", "Files of the brokers to start, separated by ':'; `-b` says the same.", unit=PATH
    )
    broker_config_dirs: str = option(
        "",
        "Not in RocketMQ. Directories, separated by ':', below which ADD_BROKER may name a file."
        " Whoever reaches the port chooses that path, and the answer tells what is wrong with the"
        " file: without a bound it would read any file to strangers. Empty is the directory of"
        " the container's own file; without one ADD_BROKER is refused.",
        unit=PATH,
    )
    namesrv_addr: str = option(
        "", "Name servers of all brokers here; empty leaves each broker those of its own file."
    )
    bind_address: str = option(
        "127.0.0.1", "Address that the container and its brokers listen on; 0.0.0.0 is every one."
    )
    listen_port: int = option(
        10811, "Port for adding and removing brokers; it has no second one.", low=0, high=_PORT_MAX
    )
    broker_container_ip: str = option(
        "", "brokerIP1 of brokers whose own file has none.", key="brokerContainerIP"
    )
    broker_log_dir: str = option(
        "",
        "Not in RocketMQ. Below it brokers with isolateLogEnable have their log files, each in"
        " CLUSTER_BROKERNAME_BROKERID_rocketmqlogs; empty is 'logs' in the home directory.",
        unit=PATH,
    )
    broker_stop_grace_millis: int = option(
        3000,
        "Not in RocketMQ. How long a broker that stops waits for its clients to take what was sent"
        " to them.",
        mutable=True,
        low=0,
        high=60_000,
        unit="ms",
    )
    server_channel_max_idle_time_seconds: int = option(
        120, "A connection silent for this long is closed.", low=1, high=86_400, unit="s"
    )


def parts(text: str) -> tuple[str, ...]:
    """Return the parts of a ':'-separated list, each once."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(":") if part.strip()))


def load_options(
    properties: Mapping[str, str],
    *,
    env: Mapping[str, str] | None = None,
    warn: Callable[[str], None] | None = None,
) -> ContainerOptions:
    """Return the options of a properties file; raises `ConfigError` with one line for each
    fault."""
    ignored = IGNORED | _MORE_IGNORED
    (options,) = load((ContainerOptions,), properties, ignored=ignored, env=env, warn=warn)
    assert isinstance(options, ContainerOptions)
    problems = server_problems(options)
    if problems:
        raise ConfigError(problems)
    return options
