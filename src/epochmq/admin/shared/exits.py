"""The exit codes of commands, and which error leads to which.

0 done; 1 failed; 2 used wrongly; 3 not reachable; 4 unhealthy; 5 not found; 130 interrupted.
"""

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import click

from epochmq.base.errors import (
    ConfigError,
    EpochError,
    NotFound,
    NotReachable,
    OurBug,
    PortInUse,
    Refused,
    UsageError,
)

OK = 0
FAILED = 1
USAGE = 2
NOT_REACHABLE = 3
UNHEALTHY = 4
NOT_FOUND = 5
INTERRUPTED = 130

# TOPIC_NOT_EXIST, QUERY_NOT_FOUND, SUBSCRIPTION_GROUP_NOT_EXIST; numbers, because the enumeration
# costs an import that `epochmq --help` cannot afford.
_CODES_NOT_FOUND = frozenset((17, 22, 26))


_EXTRAS = {
    "spark,lake": "numpy pandas pyarrow pyspark deltalake fsspec pyiceberg s3fs sqlalchemy",
    "spark,lake,typed": "fastavro google",
    "compression": "lz4 zstandard",
    "auth": "cryptography yaml",
    "dashboard": "starlette uvicorn",
    "telemetry": "opentelemetry",
}
"""By module: the extra of the distribution that installs it."""


class Unhealthy(EpochError):
    """Raised when something exists and is not healthy; the message says what is wrong."""


def exit_code(error: BaseException) -> int:
    """Return the exit code of a command that ended with `error`."""
    if isinstance(error, Refused):
        return NOT_FOUND if error.code in _CODES_NOT_FOUND else FAILED
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    for kind, code in (
        (UsageError, USAGE),
        (ConfigError, USAGE),
        (NotReachable, NOT_REACHABLE),
        (Unhealthy, UNHEALTHY),
        (NotFound, NOT_FOUND),
    ):
        if isinstance(error, kind):
            return code
    return FAILED


def explain(error: BaseException) -> str:
    """Return the error message for users: one line, or one for each configuration error."""
    if isinstance(error, Refused):
        return f"refused: {error.remark} (code {error.code})"
    if isinstance(error, PortInUse):
        from epochmq.runtime.listen import name_holder  # an import that `--help` does not need

        return name_holder(error)
    if isinstance(error, EpochError) and not isinstance(error, OurBug) and str(error):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, ModuleNotFoundError) and (extra := _extra_of(error)):
        return f"this needs {error.name}, which is not installed: pip install 'epochmq[{extra}]'"
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"a bug in EpochMQ: {said} (EPOCHMQ_DEBUG=1 shows where; please report it)"


def _extra_of(error: ModuleNotFoundError) -> str | None:
    module = (error.name or "").partition(".")[0]
    return next((extra for extra, names in _EXTRAS.items() if module in names.split()), None)


# Lazy ----------------------------------------------------------------------------------------
# Command groups that import a command only when it is used, so that `--help` is fast.


Table = Mapping[str, tuple[str, str]]
"""Command name -> the module with its `command`, and its help in one line."""


class LazyGroup(click.Group):
    """A group over a `Table`; suggests the nearest name for a mistyped one."""

    def __init__(
        self, table: Table, sections: Mapping[str, Sequence[str]] | None = None, **kw: Any
    ):
        super().__init__(**kw)
        self.table = table
        self.sections = sections or {"Commands": tuple(table)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        found = import_module(self.table[cmd_name][0]).command
        assert isinstance(found, click.Command), cmd_name
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.table and not name.startswith("-"):
            raise click.UsageError(f"no command '{name}'{nearest(name, self.table)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.table[name][1]) for name in names])


class Program(click.Command):
    """The outermost command: converts every error to an exit code and one clear line."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        kwargs["standalone_mode"] = False
        try:
            result = super().main(*args, **kwargs)
        except SystemExit:
            raise
        except BaseException as error:
            sys.exit(_report(error))
        sys.exit(result if isinstance(result, int) else OK)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return _reader_left()


class RootGroup(Program, LazyGroup):
    """The outermost command when it is a group."""


def _report(error: BaseException) -> int:
    """Print an error on stderr and return the exit code."""
    if isinstance(error, click.Abort | KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return INTERRUPTED
    if isinstance(error, click.ClickException):
        error.show()
        return error.exit_code
    if os.environ.get("EPOCHMQ_DEBUG"):
        traceback.print_exception(error)
    for line in explain(error).splitlines():
        click.echo(f"epochmq: {line}", err=True)
    if "no name server answers" in str(error):
        click.echo("`epochmq dev` starts one here; -n HOST:PORT names another one", err=True)
    return exit_code(error)


def _reader_left() -> int:
    """Handle a closed output, as in `epochmq ... | head`, which is not a failure."""
    # Prevents the interpreter's flush at exit, which would report an error.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def nearest(name: str, known: Mapping[str, Any] | Sequence[str]) -> str:
    """Return " (did you mean 'x'?)", or an empty text when no known name is similar."""
    if name in ("help", "version"):
        return f" (use --{name})"
    import difflib  # only needed after a mistake

    by_lower = {each.lower(): each for each in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" (did you mean '{by_lower[near[0]]}'?)" if near else ""
