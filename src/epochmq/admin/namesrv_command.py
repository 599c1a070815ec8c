"""`epochmq namesrv`: one name server in this process until SIGTERM or Ctrl-C."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from epochmq.admin import serving
from epochmq.base.errors import ConfigError
from epochmq.base.options import load

if TYPE_CHECKING:
    from epochmq.controller.options import ControllerOptions
    from epochmq.controller.server.controller_server import EmbeddedController
    from epochmq.nameserver.name_server import NameServer, Observe
    from epochmq.nameserver.options import NamesrvOptions

IMPORTANT = ("bindAddress", "listenPort", "kvConfigPath")


@click.command()
@serving.server_options
@serving.bootstrap_option
def command(bootstrap: bool, **given: Any) -> None:
    """Run a name server until it is told to stop (SIGTERM or Ctrl-C).

    With enableControllerInNamesrv=true also a controller, with its options in the same file.
    Options have RocketMQ's names; see --help-options or docs/OPTIONS.md.
    """
    from epochmq.nameserver.options import NamesrvOptions

    flags = serving.Flags(**given)
    if flags.help_options:
        return serving.explain_options(NamesrvOptions, flags.output)
    settings = serving.with_bootstrap(serving.read_settings(flags), bootstrap)
    both = serving.load(_read, settings, flags)
    options = both.namesrv
    if flags.shows:
        return serving.print_options(options, flags, IMPORTANT)
    from epochmq.nameserver.name_server import main as serve
    from epochmq.runtime.main import run

    guest = None
    if options.enable_controller_in_namesrv:
        from epochmq.controller.server.controller_server import EmbeddedController

        guest = EmbeddedController(both.controller, shared_port=options.listen_port)
    work = serve(options, guest, _metrics(options, guest))
    run(work, uvloop=serving.uses_uvloop(options, flags))


def _metrics(options: "NamesrvOptions", guest: "EmbeddedController | None") -> "Observe | None":
    """Return what serves the metrics, also those of the controller; None if they are disabled."""
    if not serving.has_metrics(options):
        return None
    from epochmq.observe.controller_metrics import ControllerMetrics, controller_labels
    from epochmq.observe.metrics_server import serve_metrics
    from epochmq.observe.name_server_metrics import NameServerMetrics

    def observe(server: "NameServer") -> AbstractAsyncContextManager[None]:
        shown = server.node.options
        own = None
        if guest is not None:
            controller = guest.controller
            own = ControllerMetrics(controller.node, controller_labels(controller.options))
        metrics = NameServerMetrics(
            server.node, f"{shown.bind_address}:{server.port}", server.now_ms, own
        )
        return serve_metrics(shown, shown.bind_address, metrics, metrics.checks())

    return observe


@dataclass(frozen=True)
class _Both:
    """The options of one file, for the name server and for the controller in it."""

    namesrv: "NamesrvOptions"
    controller: "ControllerOptions"

    @property
    def log_level(self) -> str:
        return self.namesrv.log_level

    @property
    def log_file(self) -> str:
        return self.namesrv.log_file

    @property
    def log_format(self) -> str:
        return self.namesrv.log_format

    @property
    def audit_log_file(self) -> str:
        return self.namesrv.audit_log_file


def _read(
    properties: Mapping[str, str], *, env: Mapping[str, str], warn: Callable[[str], None]
) -> _Both:
    from epochmq.auth.server_keys import server_problems
    from epochmq.controller.options import IGNORED as CONTROLLERS_IGNORED
    from epochmq.controller.options import ControllerOptions
    from epochmq.nameserver.options import IGNORED, NamesrvOptions
    from epochmq.runtime.metrics_options import metrics_problems

    ignored = IGNORED | CONTROLLERS_IGNORED
    classes = (NamesrvOptions, ControllerOptions)
    both = _Both(*load(classes, properties, ignored=ignored, warn=warn, env=env))
    is_both = both.namesrv.enable_controller_in_namesrv
    own = server_problems(both.namesrv) + metrics_problems(both.namesrv)
    problems = both.controller.problems() if is_both else own
    if problems:
        raise ConfigError(problems)
    return both
