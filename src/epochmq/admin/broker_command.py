"""`epochmq broker`: one broker in this process until SIGTERM or Ctrl-C."""

import socket
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click

from epochmq.admin import serving

if TYPE_CHECKING:
    from epochmq.broker.config.options import BrokerOptions
    from epochmq.broker.server.broker_server import Broker, Observe

IMPORTANT = (
    "namesrvAddr",
    "brokerIP1",
    "brokerName",
    "brokerClusterName",
    "brokerId",
    "bindAddress",
    "listenPort",
    "fastListenPort",
    "storePathRootDir",
    "flushDiskType",
    "autoCreateTopicEnable",
    "autoCreateSubscriptionGroup",
    "enablePropertyFilter",
    "fileReservedTime",
    "deleteWhen",
    "maxMessageSize",
)


GROUPS_MAX = 64


@click.command()
@click.option("-n", "--namesrv", metavar="HOST:PORT[;...]", help="Sets namesrvAddr.")
@click.option(
    "--groups",
    type=click.IntRange(1, GROUPS_MAX),
    default=1,
    help="Number of broker groups, each in a process of its own; see docs/OPERATING.md.",
)
@serving.server_options
def command(namesrv: str | None, groups: int, **given: Any) -> None:
    """Run a broker until it is told to stop (SIGTERM or Ctrl-C).

    With --groups N it runs N brokers of N groups: the second has the name and the directories of
    the configuration with -1, and ports that are 10 higher, and so on.

    Options have RocketMQ's names; see --help-options or docs/OPTIONS.md.
    """
    from epochmq.broker.config.options import BrokerOptions, load_options, resolve

    flags = serving.Flags(**given)
    if flags.help_options:
        return serving.explain_options(BrokerOptions, flags.output)
    properties = serving.read_settings(flags)
    if namesrv is not None:
        properties["namesrvAddr"] = namesrv
    options = serving.load(load_options, properties, flags)
    if flags.shows:
        shown = resolve(options, host_name=socket.gethostname(), host_address="")
        return serving.print_options(shown, flags, IMPORTANT)
    if groups > 1:
        return _run_groups(options, properties, groups, namesrv, flags)
    from epochmq.broker.server.broker_server import main as serve
    from epochmq.runtime.main import run

    run(serve(options, _metrics(options)), uvloop=serving.uses_uvloop(options, flags))


def _metrics(options: "BrokerOptions") -> "Observe | None":
    """Return what serves the metrics; None if they are disabled."""
    return observe_broker if serving.has_metrics(options) else None


def observe_broker(broker: "Broker") -> AbstractAsyncContextManager[None]:
    """Return what serves the metrics of a broker while it is entered, if its options ask for it.

    Raises `UsageError` without the package for that.
    """
    shown = broker.options
    if not serving.has_metrics(shown):
        return nullcontext()
    from epochmq.observe.broker_metrics import BrokerMetrics
    from epochmq.observe.metrics_server import serve_metrics

    metrics = BrokerMetrics(broker.node, broker.buffered_bytes)
    return serve_metrics(shown, shown.bind_address, metrics, broker.health_checks())


def _run_groups(
    options: "BrokerOptions",
    properties: Mapping[str, str],
    groups: int,
    namesrv: str | None,
    flags: serving.Flags,
) -> None:
    from epochmq.admin import broker_groups
    from epochmq.runtime.main import run
    from epochmq.runtime.own_host import host_name

    broker_groups.check_ports(options, groups)
    common = [] if flags.config is None else [f"--config={flags.config}"]
    common += [f"--set={setting}" for setting in flags.settings]
    common += [] if namesrv is None else [f"--namesrv={namesrv}"]
    common += [f"--log-level={flags.log_level}"] if flags.log_level else []
    common += [f"--log-format={flags.log_format}"] if flags.log_format else []
    if flags.uvloop is not None:
        common.append("--uvloop" if flags.uvloop else "--no-uvloop")
    arguments = []
    for number in range(groups):
        own = broker_groups.settings_of_group(options, properties, number, host_name())
        log_file = f"{flags.log_file}-{number}" if flags.log_file and number else flags.log_file
        more = [f"--log-file={log_file}"] if log_file else []
        arguments.append([*common, *(f"--set={key}={value}" for key, value in own.items()), *more])
    raise SystemExit(run(broker_groups.main(arguments)))
