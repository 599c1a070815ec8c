"""`epochmq relay`: one address for the masters of broker groups, until SIGTERM or Ctrl-C."""

from typing import Any

import click

from epochmq.admin import serving

IMPORTANT = ("bindAddress", "relayGroups", "namesrvAddr", "brokerAddrs", "holdTimeoutMillis")


@click.command()
@serving.server_options
def command(**given: Any) -> None:
    """Run a relay until it is told to stop (SIGTERM or Ctrl-C).

    Clients of RocketMQ, with their default settings, ask for routes every 30 seconds only, and stop
    for that time when a master dies. A relay keeps their connections, and sends their requests to
    the master of the group, whichever broker that is. Brokers name it to clients when their
    groupAddress is its address; see docs/OPERATING.md.

    Example: epochmq relay --set relayGroups=broker-a:11911 --set namesrvAddr=127.0.0.1:9876
    """
    from epochmq.relay.options import RelayOptions, load_options

    flags = serving.Flags(**given)
    if flags.help_options:
        return serving.explain_options(RelayOptions, flags.output)
    options = serving.load(load_options, serving.read_settings(flags), flags)
    if flags.shows:
        return serving.print_options(options, flags, IMPORTANT)
    from epochmq.relay.relay_server import main as serve
    from epochmq.runtime.main import run

    run(serve(options), uvloop=serving.uses_uvloop(options, flags))
