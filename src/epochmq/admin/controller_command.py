"""`epochmq controller`: one controller in this process until SIGTERM or Ctrl-C."""

from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

import click

from epochmq.admin import serving

if TYPE_CHECKING:
    from epochmq.controller.options import ControllerOptions
    from epochmq.controller.server.controller_server import Controller, Observe

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

    run(serve(options, _metrics(options)), uvloop=serving.uses_uvloop(options, flags))


def _metrics(options: "ControllerOptions") -> "Observe | None":
    """Return what serves the metrics; None if they are disabled."""
    if not serving.has_metrics(options):
        return None
    from epochmq.model.host import parse_addr
    from epochmq.observe.controller_metrics import ControllerMetrics, controller_labels
    from epochmq.observe.metrics_server import serve_metrics

    def observe(controller: "Controller") -> AbstractAsyncContextManager[None]:
        shown = controller.options
        metrics = ControllerMetrics(controller.node, controller_labels(shown))
        host = shown.bind_address or parse_addr(shown.peers().own_address)[0]
        return serve_metrics(shown, host, metrics, metrics.checks())

    return observe
