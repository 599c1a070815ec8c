"""The command `epochmq`: names every command and imports none of them."""

import click

from epochmq import __version__
from epochmq.admin.shared.asking import add_options, use_connection_options
from epochmq.admin.shared.exits import RootGroup

COMMANDS = {
    "dev": ("epochmq.admin.dev", "Start a name server and a broker here, for development."),
    "demo": ("epochmq.admin.demo", "Stream a real data set through a cluster; a verdict."),
    "chaos": ("epochmq.admin.chaos", "Kill, pause and resume servers of `epochmq dev`."),
    "top": (
        "epochmq.admin.top.top_command",
        "Watch groups, roles, epochs, replicas and failovers.",
    ),
    "dashboard": (
        "epochmq.admin.dashboard.dashboard_command",
        "Serve web pages about clusters.",
    ),
    "produce": ("epochmq.admin.produce", "Send lines or JSON to a topic."),
    "consume": ("epochmq.admin.consume", "Print the messages of a topic."),
    "topic": ("epochmq.admin.nouns.noun_topic", "Create, list, show, change and delete topics."),
    "group": ("epochmq.admin.nouns.noun_group", "Consumer groups: progress, members, offsets."),
    "dlq": ("epochmq.admin.nouns.noun_dlq", "Dead letters: list, show, send again."),
    "message": ("epochmq.admin.nouns.noun_message", "Find messages by id, key, offset or time."),
    "user": ("epochmq.admin.nouns.noun_user", "Users: create, list, change, delete."),
    "acl": ("epochmq.admin.nouns.noun_acl", "What users may do: allow, deny, list, delete."),
    "cluster": (
        "epochmq.admin.nouns.noun_cluster",
        "Brokers and name servers: list, health, config.",
    ),
    "namesrv": ("epochmq.admin.namesrv_command", "Run a name server."),
    "broker": ("epochmq.admin.broker_command", "Run a broker."),
    "container": ("epochmq.admin.container_command", "Run several brokers in one process."),
    "controller": ("epochmq.admin.controller_command", "Run a controller, which elects masters."),
    "relay": ("epochmq.admin.relay_command", "Run a relay: one address for a group's master."),
    "certs": ("epochmq.admin.certs_command", "Make certificates for a test cluster."),
    "backup": ("epochmq.admin.backup_command", "Back up and restore broker groups."),
    "store": ("epochmq.admin.store_command", "Check the files of a broker that is stopped."),
    "pipeline": (
        "epochmq.admin.pipeline.pipeline_command",
        "Jobs on Spark: archive, replay, audit topics.",
    ),
    "lake": ("epochmq.admin.lake_command", "Keep topics as tables, without Spark."),
    "mqadmin": ("epochmq.admin.mqadmin.mqadmin_command", "The commands of RocketMQ's own tool."),
}
SECTIONS = {
    "Try it": ("dev", "demo", "chaos"),
    "Messages": ("produce", "consume"),
    "Data": ("pipeline", "lake"),
    "Administration": (
        "topic",
        "group",
        "dlq",
        "message",
        "user",
        "acl",
        "cluster",
        "top",
        "dashboard",
        "backup",
        "mqadmin",
    ),
    "Servers": ("namesrv", "broker", "container", "controller", "relay", "certs", "store"),
}
EPILOG = """\b
Name servers: -n HOST:PORT, else $NAMESRV_ADDR, else those of the `epochmq dev`
of this directory, which must run, else 127.0.0.1:9876.
\b
Completion by tab (bash; zsh and fish alike):
  eval "$(_EPOCHMQ_COMPLETE=bash_source epochmq)"
\b
Exit codes: 0 done, 1 failed, 2 used wrongly, 3 not reachable, 4 unhealthy,
5 not found.
"""


def _show_version(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from epochmq.native import library  # not needed by any other start of the command

        click.echo(f"epochmq {__version__}\nappend: {library.which()}")
        context.exit()


cli = RootGroup(
    COMMANDS,
    SECTIONS,
    name="epochmq",
    help="A message broker that speaks the RocketMQ 5 remoting protocol.",
    epilog=EPILOG,
    callback=use_connection_options,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version, and what appends messages.",
)(cli)
add_options(cli)


def main() -> None:
    """Entry point of the installed command."""
    cli.main(prog_name="epochmq")
