"""Runs a driver program: scenarios go in as lines, what happened comes out as JSON lines."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

Event = dict[str, Any]
_END_OF_OUTPUT: Event = {"event": "closed"}


class ScenarioError(Exception):
    """A scenario failed in the third party's client, or its program died."""


@dataclass(frozen=True)
class Outcome:
    """All events of one scenario but its end."""

    events: Sequence[Event]

    def _of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event["event"] == kind]

    @property
    def sent(self) -> list[Event]:
        """What was sent, in the order in which the answers came."""
        return self._of("sent")

    @property
    def received(self) -> list[Event]:
        """What was received, in the order in which the listener saw it."""
        return self._of("received")

    @property
    def bodies(self) -> list[str]:
        """The bodies received (their first 64 characters)."""
        return [event["body"] for event in self.received]


class Driver:
    """One driver process. It is started with the first scenario and serves many.

    ``{home}`` in ``argv`` stands for its temporary home directory.
    """

    def __init__(
        self, name: str, argv: Sequence[str | Path], env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._home = tempfile.TemporaryDirectory(prefix=f"driver-{name}-")
        self._argv = [str(arg).replace("{home}", self._home.name) for arg in argv]
        self._env = {**os.environ, "HOME": self._home.name, **(env or {})}
        self._child: subprocess.Popen[str] | None = None
        self._events: queue.Queue[Event] = queue.Queue()
        self._seen: list[Event] = []

    @property
    def home(self) -> Path:
        """The program's home directory: what the client writes there goes with the driver."""
        return Path(self._home.name)

    def start(self, scenario: str, namesrv: str, topic: str, **options: object) -> None:
        """Begin a scenario; ``finish`` or ``wait_event`` follow."""
        words = [scenario, "--namesrv", namesrv, "--topic", topic]
        for key, value in options.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            words += [f"--{key.replace('_', '-')}", text.replace(" ", "+")]
        child = self._running()
        self._seen = []
        assert child.stdin is not None
        child.stdin.write(" ".join(words) + "\n")
        child.stdin.flush()

    def run(
        self, scenario: str, namesrv: str, topic: str, within_s: float = 60, **options: object
    ) -> Outcome:
        """A whole scenario; raises ``ScenarioError`` when it did not work."""
        self.start(scenario, namesrv, topic, **options)
        return self.finish(within_s)

    def finish(self, within_s: float = 60) -> Outcome:
        """Wait for the scenario's end."""
        end = self.wait_event(lambda event: event["event"] == "end", within_s)
        if not end["ok"]:
            raise ScenarioError(f"{self.name} {end['scenario']}: {end['error']}\n{self._log()}")
        return Outcome([event for event in self._seen if event is not end])

    def wait_event(self, wanted: Callable[[Event], bool], within_s: float = 60) -> Event:
        """The next event that ``wanted`` accepts; all that pass are kept for ``finish``."""
        deadline = time.monotonic() + within_s
        while True:
            try:
                event = self._events.get(timeout=max(0.01, deadline - time.monotonic()))
            except queue.Empty:
                self.kill9()  # it is at the old scenario still; the next one gets a new process
                raise ScenarioError(
                    f"{self.name}: nothing within {within_s} s; so far "
                    f"{len(self._seen)} events\n{self._log()}"
                ) from None
            if event is _END_OF_OUTPUT:
                raise ScenarioError(f"{self.name} died\n{self._log()}")
            self._seen.append(event)
            if wanted(event):
                return event

    @property
    def seen(self) -> Sequence[Event]:
        """The events of the scenario that were waited for or skipped so far."""
        return self._seen

    def skip(self) -> None:
        """Pass over what has happened up to now without waiting."""
        for _ in range(self._events.qsize()):
            event = self._events.get()
            if event is _END_OF_OUTPUT:
                self._events.put(event)
                return
            self._seen.append(event)

    def pause(self) -> None:
        """Stop the process where it is (SIGSTOP)."""
        self._running().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        self._running().send_signal(signal.SIGCONT)

    def kill9(self) -> None:
        """The client's crash; the next scenario starts a new process."""
        if self._child is not None:
            assert self._child.stdin is not None
            self._child.kill()
            self._child.wait()
            with suppress(BrokenPipeError):
                self._child.stdin.close()
            self._child = None

    def close(self) -> None:
        """End the process and remove its home."""
        self.kill9()
        self._home.cleanup()

    def _running(self) -> subprocess.Popen[str]:
        if self._child is None or self._child.poll() is not None:
            self._events = queue.Queue()
            with (self.home / "driver.log").open("ab") as log:
                self._child = subprocess.Popen(
                    self._argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=self._env,
                    cwd=self.home,
                    encoding="utf-8",
                    errors="replace",
                )
            threading.Thread(
                target=_read, args=(self._child, self._events), daemon=True, name=self.name
            ).start()
        return self._child

    def _log(self) -> str:
        text = (self.home / "driver.log").read_text(errors="replace")
        return "\n".join(text.splitlines()[-25:])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _read(child: subprocess.Popen[str], events: queue.Queue[Event]) -> None:
    assert child.stdout is not None
    with child.stdout:
        for line in child.stdout:
            if line.startswith('{"event"'):
                events.put({**json.loads(line), "at": time.monotonic()})
    events.put(_END_OF_OUTPUT)
