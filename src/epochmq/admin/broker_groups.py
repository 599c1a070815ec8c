"""`epochmq broker --groups N`: one process for each of N broker groups, from one configuration.

A broker uses one core. Several groups use several cores; RocketMQ's clients spread the messages of
a topic over all groups that have it. The first group is that of the configuration file, unchanged.
Group K has the name, the store directories and the log files with `-K`, and its ports are 10 K
higher.
"""

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from epochmq.base.backoff import backoff_ms
from epochmq.base.errors import ConfigError
from epochmq.broker.config.options import FAST_PORT_STEP, HA_PORT_STEP, BrokerOptions
from epochmq.model.host import format_addr, parse_addr
from epochmq.runtime.metrics_options import is_enabled
from epochmq.runtime.service_manager import environment_of_child, serve_until
from epochmq.runtime.signals import StopSignal, stop_on_signals

log = logging.getLogger(__name__)

PORT_STEP = 10
PORT_MAX = 65_535
STARTED_S = 5.0
"""A process that fails sooner after its first start has a fault that a restart does not mend."""
RESTART_MS, RESTART_MS_MAX = 1_000, 30_000
"""Pause before a process that ended is started again; it doubles up to the second value."""
STEADY_S = 60.0
"""After a process ran for so long, the next pause is the first one again."""
KILL_S = 60.0
"""A process that has not stopped after this time is killed."""
_PATHS = (
    "storePathCommitLog",
    "storePathEpochFile",
    "storePathBrokerIdentity",
    "auditLogFile",
    "logFile",
)
"""Options with paths that a configuration may set beside storePathRootDir."""


def settings_of_group(
    options: BrokerOptions, properties: Mapping[str, str], number: int, host_name: str
) -> dict[str, str]:
    """Return the options in which group `number` differs from the configuration.

    Args:
        options: the options of the configuration.
        properties: the same as text, as far as they are set.
        number: 0 is the group of the configuration itself, which differs in nothing.
        host_name: the name of a broker without brokerName.
    """
    if not number:
        return {}
    by = number * PORT_STEP
    found = {
        "brokerName": f"{options.broker_name or host_name}-{number}",
        "storePathRootDir": f"{options.store_path_root_dir}-{number}",
        "listenPort": str(options.listen_port + by),
    }
    found |= {key: f"{properties[key]}-{number}" for key in _PATHS if properties.get(key)}
    for key, port in (
        ("fastListenPort", options.fast_listen_port),
        ("haListenPort", options.ha_listen_port),
        ("healthListenPort", options.health_listen_port),
        ("metricsPromExporterPort", _metrics_port(options)),
    ):
        if port > 0:
            found[key] = str(port + by)
    if options.group_address:
        host, port = parse_addr(options.group_address)
        found["groupAddress"] = format_addr(host, port + by)
    return found


def _metrics_port(options: BrokerOptions) -> int:
    """Return the port for scrapes; 0 if there are none."""
    return options.metrics_prom_exporter_port if is_enabled(options) else 0


def check_ports(options: BrokerOptions, groups: int) -> None:
    """Raise `ConfigError` if two of the groups' ports are equal, or if one is too high."""
    main = options.listen_port
    fast = options.fast_listen_port or main + FAST_PORT_STEP
    ports = [main, options.ha_listen_port or main + HA_PORT_STEP]
    more = fast, options.health_listen_port, _metrics_port(options)
    ports += [port for port in more if port > 0]
    found = [port + number * PORT_STEP for number in range(groups) for port in ports]
    if not main:
        raise ConfigError(["option 'listenPort' must not be 0 with --groups"])
    if max(found) > PORT_MAX:
        raise ConfigError([f"--groups {groups} needs port {max(found)}; lower listenPort"])
    twice = sorted({port for port in found if found.count(port) > 1})
    if twice:
        raise ConfigError(
            [
                f"--groups {groups} needs port {twice[0]} twice: the ports of group K are"
                f" {PORT_STEP} K higher; choose other ports"
            ]
        )


@dataclass(slots=True)
class GroupProcess:
    """One group's process."""

    number: int
    arguments: list[str]
    process: asyncio.subprocess.Process | None = None


class GroupSupervisor:
    """Runs the processes of all groups, and starts again what ends by itself."""

    def __init__(self, arguments: Sequence[Sequence[str]]) -> None:
        """`arguments`: of `epochmq broker`, for each group."""
        self.groups = [GroupProcess(number, list(own)) for number, own in enumerate(arguments)]
        self.exit_code = 0

    async def run(self, stop: StopSignal) -> None:
        """Run until `stop`, or until a group cannot be started; then stop all."""
        running = [asyncio.create_task(self._run(group, stop)) for group in self.groups]
        try:
            reason = await serve_until(stop, f"{len(self.groups)} groups are started")
            log.info("stopping: %(reason)s", {"reason": reason})
        finally:
            for group in self.groups:
                _signal(group, signal.SIGTERM)
            _, late = await asyncio.wait(running, timeout=KILL_S)
            for group in self.groups if late else ():
                log.error(
                    "group %(group)d does not stop; its process is killed", {"group": group.number}
                )
                _signal(group, signal.SIGKILL)
            await asyncio.wait(running)

    async def _run(self, group: GroupProcess, stop: StopSignal) -> None:
        loop = asyncio.get_running_loop()
        is_first, failures = True, 0

        def is_stopping() -> bool:
            return stop.asked

        while not is_stopping():
            started_s = loop.time()
            # In a session of its own: Ctrl-C in a terminal reaches only the supervisor.
            process = group.process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "epochmq",
                "broker",
                *group.arguments,
                start_new_session=True,
                env=environment_of_child(os.environ),
            )
            if is_stopping():
                _signal(group, signal.SIGTERM)
            code = await process.wait()
            if is_stopping():
                return
            ran_s = loop.time() - started_s
            if code > 0 and is_first and ran_s < STARTED_S:
                self.exit_code = code
                stop.ask(f"group {group.number} ended with code {code}")
                return
            is_first, failures = False, 0 if ran_s >= STEADY_S else failures
            pause_ms = backoff_ms(failures, RESTART_MS, RESTART_MS_MAX)
            failures += 1
            log.error(
                "group %(group)d ended with code %(code)d; it is started again in %(pause_ms)d ms",
                {"group": group.number, "code": code, "pause_ms": pause_ms},
            )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1_000):
                    await stop.wait()


def _signal(group: GroupProcess, number: signal.Signals) -> None:
    if group.process is not None and group.process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            group.process.send_signal(number)


async def main(arguments: Sequence[Sequence[str]]) -> int:
    """Run one process for each element of `arguments` until SIGTERM or Ctrl-C; the exit code."""
    supervisor = GroupSupervisor(arguments)
    with stop_on_signals() as stop:
        await supervisor.run(stop)
    return supervisor.exit_code
