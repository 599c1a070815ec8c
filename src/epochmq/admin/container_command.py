"""`epochmq container`: several brokers in this process until SIGTERM or Ctrl-C."""

import os
from pathlib import Path
from typing import Any

import click

from epochmq.admin import serving

IMPORTANT = ("brokerConfigPaths", "brokerConfigDirs", "namesrvAddr", "bindAddress", "listenPort")


@click.command()
@click.option("-b", "--broker-configs", metavar="FILE[:FILE...]", help="Sets brokerConfigPaths.")
@serving.server_options
def command(broker_configs: str | None, **given: Any) -> None:
    """Run several brokers in one process until it is told to stop (SIGTERM or Ctrl-C).

    brokerConfigPaths names the brokers' own files; `epochmq mqadmin addBroker` and `removeBroker`
    change which there are. Options have RocketMQ's names; see --help-options or docs/OPTIONS.md.
    """
    from epochmq.broker.config.container_options import ContainerOptions, load_options

    flags = serving.Flags(**given)
    if flags.help_options:
        return serving.explain_options(ContainerOptions, flags.output)
    properties = serving.read_settings(flags)
    if broker_configs is not None:
        properties["brokerConfigPaths"] = broker_configs
    if flags.config and not properties.get("brokerConfigDirs"):
        properties["brokerConfigDirs"] = str(Path(flags.config).absolute().parent)
    options = serving.load(load_options, properties, flags)
    if flags.shows:
        return serving.print_options(options, flags, IMPORTANT)
    from epochmq.admin.broker_command import observe_broker
    from epochmq.broker.server.container_service import main as serve
    from epochmq.runtime.main import run

    run(serve(options, os.environ, observe_broker), uvloop=serving.uses_uvloop(options, flags))
