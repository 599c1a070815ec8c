"""Logs of servers as processes: JSON lines, and a level that changes while they run."""

import asyncio
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.admin.shell import Shell, read_until, shell_in

from epochmq.admin.local.config_files import PortBlock, choose_anywhere
from epochmq.base.errors import Refused
from epochmq.client.aio import Admin

LEVEL = ("-k", "logLevel", "-v")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with shell_in(tmp_path) as opened:
        yield opened


@pytest.fixture
def ports() -> PortBlock:
    return choose_anywhere()


def started(shell: Shell, *args: str) -> subprocess.Popen[bytes]:
    """Start a server with JSON lines, and wait until it is ready."""
    child = shell.start(*args, "--log-format", "json")
    read_until(child, "ready on")
    return child


def wait_for(child: subprocess.Popen[bytes], event: str, **values: object) -> dict[str, Any]:
    """Return the next line with an event and these values; each line is an object."""
    assert child.stderr is not None
    for line in child.stderr:
        found: dict[str, Any] = json.loads(line)
        told = found.get("values", {})
        if found["event"] == event and all(told.get(k) == v for k, v in values.items()):
            return found
    raise AssertionError(f"it ended without {event}")


def reload(child: subprocess.Popen[bytes], file: Path, *lines: str) -> None:
    """Replace the properties file of a server as a whole, and let the server read it again.

    Wait for the event of the change before the next one: two signals may become one.
    """
    new = file.with_suffix(".new")
    new.write_text("\n".join(lines))
    new.replace(file)
    child.send_signal(signal.SIGHUP)


def namesrv(shell: Shell, ports: PortBlock) -> subprocess.Popen[bytes]:
    setting = f"listenPort={ports.namesrv}"
    return started(shell, "namesrv", "--set", setting)


def test_the_level_of_a_name_server(shell: Shell, ports: PortBlock) -> None:
    child = namesrv(shell, ports)
    address = f"127.0.0.1:{ports.namesrv}"

    async def change(level: str) -> None:
        async with Admin(address) as admin:
            await admin.update_namesrv_config({"logLevel": level})

    asyncio.run(change("debug"))
    shell.run("topic", "list", "-n", address)
    assert wait_for(child, "closed")["level"] == "debug"
    with pytest.raises(Refused, match="must be one of debug"):
        asyncio.run(change("loud"))
    child.send_signal(signal.SIGTERM)
    assert wait_for(child, "stopping")["values"]["reason"]


SERVERS = {
    "namesrv": ("listenPort={port}",),
    "relay": ("relayGroups=broker-a:{port}", "namesrvAddr=127.0.0.1:1"),
    "dashboard": ("listenPort={port}", "namesrvAddr=127.0.0.1:1", "dataDir=data"),
}


@pytest.mark.parametrize("server", SERVERS)
def test_sighup_reads_the_level_in_the_file(shell: Shell, ports: PortBlock, server: str) -> None:
    settings = [line.format(port=ports.namesrv) for line in SERVERS[server]]
    file = shell.directory / "server.properties"
    file.write_text("\n".join(settings))
    child = shell.start(server, "-c", "server.properties", "--log-format", "json")
    if server == "dashboard":
        wait_for(child, "dashboard_at")
    else:
        read_until(child, "ready")
    reload(child, file, *settings, "logLevel=debug")
    assert wait_for(child, "sighup")["values"]["text"] == "logLevel is debug now"
    reload(child, file, *settings, "logLevel=loud")
    found = wait_for(child, "sighup_nothing_is_changed")["values"]["error"]
    assert "logLevel is 'loud'; it can be debug, info, warning, error" in found
    reload(child, file, *settings)
    assert wait_for(child, "sighup")["values"]["text"] == "logLevel is info now"


def test_a_level_set_at_runtime_survives_sighup_and_can_be_set_back(
    shell: Shell, ports: PortBlock
) -> None:
    file, address = shell.directory / "server.properties", f"127.0.0.1:{ports.namesrv}"
    file.write_text(f"listenPort={ports.namesrv}\n")
    child = started(shell, "namesrv", "-c", "server.properties")

    async def change(level: str) -> None:
        async with Admin(address) as admin:
            await admin.update_namesrv_config({"logLevel": level})

    asyncio.run(change("debug"))
    child.send_signal(signal.SIGHUP)  # the file says what it said: log files are opened again only
    wait_for(child, "sighup_log_files_are_opened_again")
    shell.run("topic", "list", "-n", address)
    assert wait_for(child, "closed")["level"] == "debug"
    for level in ("debug", "info"):
        reload(child, file, f"listenPort={ports.namesrv}", f"logLevel={level}")
        assert wait_for(child, "sighup")["values"]["text"] == f"logLevel is {level} now"
    asyncio.run(change("debug"))  # the options still say debug: it counts all the same
    shell.run("topic", "list", "-n", address)
    assert wait_for(child, "closed")["level"] == "debug"


def test_the_level_of_a_broker_stays_over_a_restart(shell: Shell, ports: PortBlock) -> None:
    server = namesrv(shell, ports)
    settings = {
        "brokerName": "a",
        "namesrvAddr": f"127.0.0.1:{ports.namesrv}",
        "listenPort": str(ports.broker),
        "storePathRootDir": str(shell.directory / "store"),
        "mappedFileSizeCommitLog": "8388608",
    }
    args = ["broker", *(part for k, v in settings.items() for part in ("--set", f"{k}={v}"))]
    child = started(shell, *args)
    change = ("mqadmin", "updateBrokerConfig", "-b", f"127.0.0.1:{ports.broker}", *LEVEL)
    code, out, err = shell.run(*change, "debug", "-n", f"127.0.0.1:{ports.namesrv}")
    assert code == 0, out + err
    assert wait_for(child, "changed_options")["values"]["changes"] == "logLevel"
    assert wait_for(child, "closed")["level"] == "debug"
    child.send_signal(signal.SIGTERM)
    child.communicate()
    child = started(shell, *args)
    shell.run("mqadmin", "brokerStatus", "-b", f"127.0.0.1:{ports.broker}")
    assert wait_for(child, "closed")["level"] == "debug"
    server.kill()
