"""Runs the commands of containers as processes of this machine, each with an address of its own.

A container gets an address of 127.0.0.0/8, where all of them can use the same ports. Names of hosts
are in a file that each process sees as /etc/hosts, as a cluster's DNS would know them. That takes a
mount namespace, so root.
"""

import contextlib
import http.client
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

EPOCHMQ = Path(sys.executable).with_name("epochmq")
START_S = 60.0
STOP_S = 60.0


def can_mount() -> bool:
    """Whether this process may make a mount namespace."""
    try:
        done = subprocess.run(["unshare", "--mount", "true"], capture_output=True, timeout=10)
    except OSError:
        return False
    return done.returncode == 0


class Containers:
    """Containers by name. `with` stops all of them.

    Args:
        directory: where their files are.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._hosts_file = directory / "hosts"
        self._hosts: dict[str, str] = {}
        self._addresses: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.name_host("localhost", "127.0.0.1")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def name_host(self, name: str, address: str) -> None:
        """Make all containers find `name` at `address` from now on."""
        self._hosts[name] = address
        lines = "".join(f"{address} {name}\n" for name, address in self._hosts.items())
        # In place: the processes see this file itself, not its name.
        self._hosts_file.write_text(lines)

    def in_hosts(self, command: Sequence[str | Path]) -> list[str]:
        """Return `command` so that it sees the names of the containers."""
        mount = f'mount --bind {self._hosts_file} /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "sh", "-c", mount, "sh", *map(str, command)]

    def start(self, name: str, args: Sequence[str], address: str, files: Mapping[str, str]) -> None:
        """Start a container.

        Args:
            name: what the container is called here; its data outlives it.
            args: what follows `epochmq`.
            address: its address in 127.0.0.0/8.
            files: the content of files by their paths in the container.
        """
        own = self.directory / name
        data = own / "data"
        data.mkdir(parents=True, exist_ok=True)

        def here(text: str) -> str:
            for path in files:
                text = text.replace(path, str(own / Path(path).name))
            return text.replace("/var/lib/epochmq", str(data)).replace("0.0.0.0", address)

        for path, content in files.items():
            (own / Path(path).name).write_text(here(content))
        self._addresses[name] = address
        log = (own / "log").open("ab")
        with log:
            self._processes[name] = subprocess.Popen(
                self.in_hosts([EPOCHMQ, *map(here, args)]),
                stdout=log,
                stderr=log,
                cwd=data,
                env={**os.environ, "HOME": str(data)},
            )

    def stop(self, name: str) -> None:
        """Stop a container as a container runtime does, by SIGTERM. Asserts that it ends well."""
        process = self._processes[name]
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_S) == 0, self.log(name)

    def kill(self, name: str) -> None:
        """Kill a container by SIGKILL."""
        self._processes[name].kill()
        self._processes[name].wait()

    def log(self, name: str) -> str:
        """Return the end of what a container printed."""
        return (self.directory / name / "log").read_text()[-4000:]

    def is_ok(self, name: str, path: str, port: int = 5557) -> bool:
        """Whether a GET of `path` is answered with 200, as a probe wants it."""
        connection = http.client.HTTPConnection(self._addresses[name], port, timeout=5)
        try:
            connection.request("GET", path, headers={"Host": "localhost"})
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def wait_until_ok(self, name: str, path: str, port: int = 5557) -> None:
        """Wait until a GET of `path` is answered with 200."""
        deadline = time.monotonic() + START_S
        while not self.is_ok(name, path, port):
            assert self._processes[name].poll() is None, f"{name} ended: {self.log(name)}"
            assert time.monotonic() < deadline, f"{name} is not ready: {self.log(name)}"
            time.sleep(0.05)
