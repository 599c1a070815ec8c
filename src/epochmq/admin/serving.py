"""The common parts of the server commands: reading options from files and showing them."""

import contextlib
import functools
import importlib.util
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from epochmq.admin.shared.exits import explain
from epochmq.admin.shared.output import note, output_option, show
from epochmq.base.errors import ConfigError, EnvironmentFault, UsageError
from epochmq.base.java_properties import format_properties, parse_properties
from epochmq.base.options import describe, render_properties
from epochmq.runtime.logging_setup import (
    configure,
    configure_part,
    report_crashes,
    set_level,
    tell_files,
)
from epochmq.runtime.metrics_options import MetricsOptions, is_enabled
from epochmq.runtime.server_log_options import JSON, LEVELS, LOG_LEVEL, TEXT
from epochmq.runtime.signals import on_reload

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Flags:
    """The command line arguments of a server."""

    config: str | None
    settings: tuple[str, ...]
    print_all: bool
    print_important: bool
    help_options: bool
    log_level: str | None
    log_file: str | None
    log_format: str | None
    uvloop: bool | None
    output: str

    @property
    def shows(self) -> bool:
        """Whether options are only printed."""
        return self.print_all or self.print_important


def server_options(command: F) -> F:
    """Add the options of server commands; letters as in RocketMQ's `mqnamesrv` and `mqbroker`."""
    command = _tell_log(command)
    for decorate in reversed(
        (
            click.option("-c", "--config", metavar="FILE", help="RocketMQ properties file."),
            click.option(
                "--set",
                "settings",
                metavar="KEY=VALUE",
                multiple=True,
                help="Overrides the option file.",
            ),
            click.option("-p", "print_all", is_flag=True, help="Print all options and exit."),
            click.option(
                "-m", "print_important", is_flag=True, help="Print the important ones and exit."
            ),
            click.option("--help-options", is_flag=True, help="Explain all options and exit."),
            click.option("--log-level", type=click.Choice(LEVELS), help="[default: info]"),
            click.option("--log-file", metavar="FILE", help="Log file, in addition to stderr."),
            click.option("--log-format", type=click.Choice((TEXT, JSON)), help="[default: text]"),
            click.option(
                "--uvloop/--no-uvloop",
                default=None,
                help="Run on uvloop. [default: where it is installed]",
            ),
            output_option,
        )
    ):
        command = decorate(command)
    return command


def bootstrap_option(command: F) -> F:
    """Add `--bootstrap`, for servers in which a controller may run."""
    return click.option(
        "--bootstrap",
        is_flag=True,
        help="The group of controllers is new: found it once all members are up with empty "
        "directories. The same as --set controllerBootstrap=true.",
    )(command)


def with_bootstrap(settings: dict[str, str], bootstrap: bool) -> dict[str, str]:
    """Return the settings with `--bootstrap` applied."""
    return {**settings, "controllerBootstrap": "true"} if bootstrap else settings


def _tell_log(command: F) -> F:
    """Also log the error that ends a server, since its standard error may be lost."""

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        try:
            return command(**given)
        except Exception as error:
            _set_up_file(given.get("log_file"))
            text = error.message if isinstance(error, click.ClickException) else explain(error)
            for line in text.splitlines():
                tell_files(f"ended: {line}")
            raise

    return cast(F, run)


def _set_up_file(file: str | None) -> None:
    """Set up the log file of the command line when the options could not be read."""
    if file is not None and not logging.getLogger().handlers:
        with contextlib.suppress(OSError):
            configure(file=file)


def read_settings(flags: Flags) -> dict[str, str]:
    """Return the file's properties, overridden by those of `--set KEY=VALUE`."""
    found = read_file(flags.config) if flags.config else {}
    for setting in flags.settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.strip():
            raise click.UsageError(f"--set wants KEY=VALUE, not '{setting}'")
        found[key.strip()] = value
    return found


def read_file(config: str) -> dict[str, str]:
    """Read one properties file; raises `ConfigError` with its name."""
    try:
        return parse_properties(Path(config).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"cannot read {config}: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"cannot read {config}: it is not UTF-8 text"]) from None
    except ConfigError as error:
        raise ConfigError([f"{config}: {each}" for each in error.problems]) from None


def load(loader: Callable[..., T], properties: Mapping[str, str], flags: Flags) -> T:
    """Load typed options by a server's `loader`; set up logging unless options are only shown.

    Every error names the file with the option.
    """
    warnings: list[str] = []
    try:
        options = loader(properties, env=os.environ, warn=warnings.append)
    except ConfigError as error:
        where = f"{flags.config}: " if flags.config else ""
        raise ConfigError([where + problem for problem in error.problems]) from None
    if not flags.shows:
        _set_up_log(options, flags)
    for line in warnings:
        if flags.shows:
            note(line)
        else:
            log.warning(line)
    return options


def _set_up_log(options: object, flags: Flags) -> None:
    level = flags.log_level or _option(options, "log_level") or "info"
    file = flags.log_file or _option(options, "log_file") or None
    format = flags.log_format or _option(options, "log_format") or TEXT
    try:
        configure(level, file, format)
        report_crashes(file)
    except OSError as error:
        option = "--log-file" if flags.log_file else "option 'logFile'"
        raise EnvironmentFault(f"{option}: cannot write {file}: {error.strerror}") from None
    if flags.config is not None and flags.log_level is None:
        on_reload(LogLevelFile(flags, level).renew)
    if audit := _option(options, "audit_log_file"):
        from epochmq.auth.audit_log import LOGGER

        try:
            configure_part(LOGGER, "info", audit)
        except OSError as error:
            text = f"option 'auditLogFile': cannot write {audit}: {error.strerror}"
            raise EnvironmentFault(text) from None


class LogLevelFile:
    """The option `logLevel` in the properties file of a server, read again at each SIGHUP.

    A level that an operator set at runtime stays, unless the file has changed since.
    """

    def __init__(self, flags: Flags, level: str) -> None:
        self._flags = flags
        self._level = level

    def renew(self) -> str:
        """Use the file's level if it changed; returns a text for the log.

        Raises `ConfigError` if the file cannot be read or has another word for a level.
        """
        level = read_settings(self._flags).get(LOG_LEVEL, "info").strip().lower()
        if level not in LEVELS:
            raise ConfigError(
                [f"{self._flags.config}: {LOG_LEVEL} is '{level}'; it can be {', '.join(LEVELS)}"]
            )
        if level == self._level:
            return ""
        set_level(level)
        self._level = level
        return f"{LOG_LEVEL} is {level} now"


def uses_uvloop(options: object, flags: Flags) -> bool:
    """Return the command line's value, else the file's; by default uvloop is used."""
    if flags.uvloop is not None:
        return flags.uvloop
    return getattr(options, "use_uvloop", True) is True


def has_metrics(options: MetricsOptions) -> bool:
    """Return whether scrapes are answered. Raises `UsageError` without the package for that."""
    if not is_enabled(options):
        return False
    if importlib.util.find_spec("prometheus_client") is None:
        raise UsageError(
            "metricsExporterType=PROM needs prometheus-client: pip install 'epochmq[metrics]'"
        )
    return True


def _option(options: object, name: str) -> str:
    """Return a server's option, or an empty text if the server does not have it."""
    return str(getattr(options, name, ""))


def print_options(options: object, flags: Flags, important: Iterable[str]) -> None:
    """Print the effective configuration as properties; with -m only the `important` keys."""
    text = render_properties([options])
    if not flags.print_all:
        known = parse_properties(text)
        text = format_properties((key, known[key]) for key in important if key in known)
    click.echo(text, nl=False)


def explain_options(cls: type, output: str) -> None:
    """Print every option with its default and its description."""
    rows = [
        {
            "option": row.key,
            "default": row.default,
            "allowed": row.allowed,
            "unit": row.unit,
            "changes at runtime": row.mutable,
            "meaning": row.doc,
        }
        for row in describe(cls)
    ]
    show(output, ("option", "default", "allowed", "unit", "meaning"), rows)
