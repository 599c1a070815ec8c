"""`epochmq broker`: one broker in this process until SIGTERM or Ctrl-C."""

import socket
from typing import Any

import click

from epochmq.admin import serving

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


@click.command()
@click.option("-n", "--namesrv", metavar="HOST:PORT[;...]", help="Sets namesrvAddr.")
@serving.server_options
def command(namesrv: str | None, **given: Any) -> None:
    """Run a broker until it is told to stop (SIGTERM or Ctrl-C).

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
    from epochmq.broker.server.broker_server import main as serve
    from epochmq.runtime.main import run

    run(serve(options), uvloop=serving.uses_uvloop(options, flags))
