"""The directive `command-help`: the `--help` of the command line, command by command."""

from collections.abc import Iterator

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_id

from epochmq.admin.cli import cli

WIDTH = 100


def helps(
    command: click.Command, name: str, above: click.Context | None
) -> Iterator[tuple[str, str]]:
    """Yield (name, text of `--help`) of a command and of all commands below it."""
    context = click.Context(
        command, info_name=name.rpartition(" ")[2], parent=above, terminal_width=WIDTH
    )
    context.help_option_names = ["-h", "--help"]
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            if below is not None and not below.hidden:
                yield from helps(below, f"{name} {each}", context)


class CommandHelp(SphinxDirective):
    """Inserts a section for each command."""

    def run(self) -> list[nodes.Node]:
        found: list[nodes.Node] = []
        for name, text in helps(cli, "epochmq", None):
            section = nodes.section(ids=[make_id(self.env, self.state.document, "", name)])
            section += nodes.title(text=name)
            section += nodes.literal_block(text, text, language="none")
            found.append(section)
        return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True}
