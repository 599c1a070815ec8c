"""`epochmq controller`: one controller in this process until SIGTERM or Ctrl-C."""

from typing import Any

import click

from epochmq.admin import serving

IMPORTANT = (
    "controllerDLegerGroup",
    "controllerDLegerPeers",
    "controllerDLegerSelfId",
    "controllerStorePath",
    "controllerBootstrap",
)


@click.command()
@serving.server_options
@serving.bootstrap_option
def command(bootstrap: bool, **given: Any) -> None:
    """Run a controller until it is told to stop (SIGTERM or Ctrl-C).

    Options have RocketMQ's names; see --help-options or docs/OPTIONS.md.
    """
    from epochmq.controller.options import ControllerOptions, load_options

    flags = serving.Flags(**given)
    if flags.help_options:
        return serving.explain_options(ControllerOptions, flags.output)
    settings = serving.with_bootstrap(serving.read_settings(flags), bootstrap)
    options = serving.load(load_options, settings, flags)
    if flags.shows:
        return serving.print_options(options, flags, IMPORTANT)
    from epochmq.controller.server.controller_server import main as serve
    from epochmq.runtime.main import run

    run(serve(options), uvloop=serving.uses_uvloop(options, flags))
