"""Builds the commands of `mqadmin`: options in RocketMQ's spelling, output as text or JSON."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from epochmq.admin.local.where import default_namesrv
from epochmq.admin.shared.asking import ask
from epochmq.admin.shared.output import JSON, TABLE, print_json

if TYPE_CHECKING:
    from epochmq.client.aio import Admin


_FOR_ALL = "epochmq.admin.mqadmin.output"


class Out:
    """The output of a command: text in RocketMQ's format, or JSON lines."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    def line(self, text: str = "", row: Mapping[str, object] | None = None) -> None:
        """Print `text`; for JSON print `row` instead, if there is one."""
        if not self.as_json:
            click.echo(text)
        elif row is not None:
            print_json(row)

    def row(self, row: Mapping[str, object]) -> None:
        """Print what only JSON shows."""
        if self.as_json:
            print_json(row)


Work = Callable[..., "Awaitable[None]"]
"""`async def work(admin, out, **values of the options)`."""


class MqCommand(click.Command):
    """Accepts long options with one dash as well (`-topic x`), as RocketMQ's parser does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        long_names = {name for each in self.params for name in each.opts if name[:2] == "--"}
        return super().parse_args(ctx, [_two_dashes(arg, long_names) for arg in args])


def _two_dashes(arg: str, long_names: set[str]) -> str:
    name = arg.partition("=")[0]
    return f"-{arg}" if len(name) > 2 and f"-{name}" in long_names else arg


def mq_command(name: str, *options: click.Option) -> Callable[[Work], click.Command]:
    """Return a decorator for a coroutine that becomes the command `name` and gets an `Admin`."""

    def decorate(work: Work) -> click.Command:
        def callback(namesrv: str, output: str | None, **values: object) -> None:
            wanted = output or click.get_current_context().meta.get(_FOR_ALL)
            out = Out(wanted == JSON)

            async def connected(admin: "Admin") -> None:
                await work(admin, out, **values)

            ask(namesrv, connected)

        taken = {letter for option in options for letter in option.opts}
        return MqCommand(
            name,
            callback=callback,
            params=[*options, _namesrv(), _output(taken)],
            help=work.__doc__,
        )

    return decorate


def output_for_all() -> click.Option:
    """`mqadmin -o json NAME`: some commands use -o for something else."""

    def keep(ctx: click.Context, option: click.Parameter, value: str) -> str:
        ctx.meta[_FOR_ALL] = value
        return value

    return click.Option(
        ["-o", "--output"], type=click.Choice([TABLE, JSON]), default=TABLE, callback=keep
    )


def _output(taken: set[str]) -> click.Option:
    letters = [] if "-o" in taken else ["-o"]
    kind = click.Choice([TABLE, JSON])
    return click.Option(
        [*letters, "--output"], type=kind, help="Print text as RocketMQ's tool does, or JSON."
    )


def _namesrv() -> click.Option:
    return click.Option(
        ["-n", "--namesrvAddr", "namesrv"],
        default=default_namesrv,
        metavar="HOST:PORT[;...]",
        show_default="$NAMESRV_ADDR, the cluster in ./.epochmq, or 127.0.0.1:9876",
        help="Name servers.",
    )


def _trimmed(ctx: click.Context, option: click.Parameter, value: str | None) -> str | None:
    """Strip blanks, as RocketMQ's tool does; an empty value is an error."""
    text = value.strip() if value is not None else None
    if text == "":
        raise click.BadParameter("it is empty", ctx, option)
    return text


def _as_bool(ctx: click.Context, option: click.Parameter, value: str | None) -> bool | None:
    """Convert the texts `true` and `false`, the values of RocketMQ's boolean options."""
    return None if value is None else value.lower() == "true"


_BOOL = click.Choice(["true", "false"], case_sensitive=False)


def opt(
    letter: str | None,
    long: str,
    meaning: str,
    kind: Any = str,
    *,
    required: bool = False,
    default: object = None,
    convert: Callable[[click.Context, click.Parameter, Any], Any] | None = None,
) -> click.Option:
    """Create an option; the coroutine's parameter is `long` with underscores."""
    letters = [f"-{letter}"] if letter else []
    # For click a default of None is a value, which would satisfy a required option.
    given: dict[str, Any] = {} if default is None else {"default": default}
    usual = _trimmed if kind is str else _as_bool if kind is bool else None
    return click.Option(
        [*letters, f"--{long}", snake(long)],
        type=_BOOL if kind is bool else kind,
        required=required,
        callback=convert or usual,
        help=meaning,
        **given,
    )


def flag(letter: str, long: str, meaning: str) -> click.Option:
    """Create an option without a value."""
    return click.Option([f"-{letter}", f"--{long}", snake(long)], is_flag=True, help=meaning)


def snake(long: str) -> str:
    """Convert `brokerAddr` to `broker_addr`."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", long)
    return spaced.lower()


def one_of(first: object, second: object, names: str) -> None:
    """Raise an error unless exactly one of two options is given; `names` is used in the message."""
    if (first is None) == (second is None):
        raise click.UsageError(f"give one of {names}, and only one")


# Repeating -----------------------------------------------------------------------------------
# Commands that can print again and again: `-i SECONDS`.


def interval() -> click.Option:
    """The option `-i`."""
    return opt("i", "interval", "Print again every so many seconds.", click.IntRange(1))


async def repeat(once: Callable[[], Awaitable[None]], seconds: int | None) -> None:
    """Run `once`, or repeatedly at an interval in seconds until Ctrl-C."""
    await once()
    while seconds is not None:
        await asyncio.sleep(seconds)
        await once()
