"""The command as a user has it: a process of its own, in a directory of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from epochmq.admin.local.local_cluster import LocalCluster

ARGV = [sys.executable, "-m", "epochmq"]


@dataclass
class Shell:
    """Runs commands in `directory`; nothing of the caller's environment points to a cluster."""

    directory: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def env(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if k not in ("NAMESRV_ADDR", "EPOCHMQ_DEBUG")}
        return {**kept, "HOME": str(self.directory)}

    def run(
        self,
        *args: str,
        stdin: bytes = b"",
        timeout: float = 50,
        env: Mapping[str, str] | None = None,
    ) -> tuple[int, str, str]:
        """Exit code, standard output and standard error; `env` adds variables."""
        done = subprocess.run(
            [*ARGV, *args],
            input=stdin,
            capture_output=True,
            cwd=self.directory,
            env={**self.env, **(env or {})},
            timeout=timeout,
            check=False,
        )
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        """A command that goes on; its output is piped."""
        child = subprocess.Popen(
            [*ARGV, *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self.directory,
            env=self.env,
        )
        self.started.append(child)
        return child

    def close(self) -> None:
        for child in self.started:
            if child.poll() is None:
                child.send_signal(signal.SIGKILL)
            child.communicate()


def read_until(child: subprocess.Popen[bytes], text: str) -> str:
    """Standard output up to the line that holds `text`."""
    assert child.stdout is not None
    seen = ""
    while text not in seen:
        line = child.stdout.readline().decode()
        assert line, f"ended before {text!r}; it said: {seen}"
        seen += line
    return seen


@contextmanager
def shell_in(directory: Path) -> Iterator[Shell]:
    """A shell whose long-running commands end with the block, and its local cluster too."""
    shell = Shell(directory)
    try:
        yield shell
    finally:
        shell.close()
        LocalCluster(directory / ".epochmq").stop()
