"""An archive as a process of its own that writes down where it is, so that its killer knows.

`python -m chaos.spark_driver NAMESRV TABLE FORMAT MODE STEPS [until-now]`. A step is a line of
STEPS: its name and the monotonic clock's nanoseconds, by one `write`, so that after SIGKILL the
last line tells where the process died.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from chaos.spark_jvm import Jvm, end_left_over, is_shared
from epochmq.spark.jobs.archive import MAX_ROWS, ArchiveOptions, run_archive

TOPIC = "Archived"
BATCH_ROWS = 400
INTERVAL_S = 0.3
COMPACT_EVERY = 40
FAILOVER_TIMEOUT_MS = 180_000
WAIT_MAX_S = 900.0
"""Longest time without the step that is waited for. On a machine with a load of 30 the JVM alone
took 270 s, and the first batch more than 300."""
LOOK_S = 0.002
PHASES = {
    "": "start-up",
    "claimed": "session start-up",
    "planned": "mid-batch",
    "written": "commit window",
    "committed": "between batches",
    "compacting": "compaction",
    "compacted": "between batches",
}
"""What a run is in once it has reached a step."""


class Gone(Exception):
    """The driver ended, and nobody had killed it."""


class Over(Exception):
    """The campaign is to end now."""


class Driver:
    """A started run. Processes it starts stay in its session, by which they are found.

    With `jvm` it runs Spark there.
    """

    def __init__(
        self,
        arguments: list[str],
        place: Path,
        number: int,
        over: Callable[[], bool],
        jvm: Jvm | None = None,
    ) -> None:
        self.mode = arguments[3]
        self.steps: list[tuple[str, float]] = []
        """Names and moments."""
        self.began = time.monotonic()
        self._over = over
        self._jvm = jvm
        self._buried = False
        steps = place / f"steps-{number}"
        steps.touch()
        self._path, self._at = steps, 0
        self._arguments = arguments
        self.log = place / "driver.log"
        environ = {**os.environ, **(jvm.environ() if jvm else {})}
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                self.command(steps), stdout=out, stderr=out, env=environ, start_new_session=True
            )

    def command(self, steps: Path) -> list[str]:
        """What is started."""
        program = [sys.executable, "-m", "chaos.spark_driver"]
        master = self.mode.split()[0]
        return [*program, *self._arguments[:3], master, str(steps), *self._arguments[4:]]

    def look(self) -> list[tuple[str, float]]:
        """All steps so far."""
        with self._path.open("rb") as file:
            file.seek(self._at)
            fresh = file.read()
        self._at += len(fresh)
        for line in fresh.splitlines():
            name, at = line.split()
            self.steps.append((name.decode(), int(at) / 1e9))
        return self.steps

    def phase(self) -> str:
        """What it is in, or was in when it died."""
        steps = self.look()
        return PHASES[steps[-1][0] if steps else ""]

    def wait(self, name: str, more: int = 1) -> None:
        """Until `name` was reached `more` times from now on."""
        wanted = sum(step == name for step, _ in self.look()) + more
        deadline = time.monotonic() + WAIT_MAX_S
        while sum(step == name for step, _ in self.look()) < wanted:
            self._check(deadline, name)
            time.sleep(LOOK_S)

    def pause(self, seconds: float) -> None:
        """Let it go on for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            self._check(until + 1, "life")
            time.sleep(min(left, 0.05))

    def _check(self, deadline: float, name: str) -> None:
        if self.process.poll() is not None:
            raise Gone(f"the archive ended by itself, code {self.process.returncode}")
        if self._over():
            raise Over
        if time.monotonic() > deadline:
            raise Gone(f"the archive does not get on: no step '{name}' in {WAIT_MAX_S:.0f} s")

    def end_of_log(self) -> str:
        """What it said last."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-25:])

    # Ends -----------------------------------------------------------------------------------

    def kill(self, alone: bool) -> str:
        """SIGKILL for the driver; for its JVM and workers too unless they are to notice it.

        Where it was.
        """
        os.kill(self.process.pid, signal.SIGKILL)
        if not alone:
            self.bury()
        self.process.wait()
        return self.phase()

    def end_well(self, timeout_s: float, ask: bool) -> None:
        """Wait for its own end, asked for by SIGTERM or not; `Gone` unless it ends with 0."""
        if ask:
            self.process.terminate()
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise Gone(f"the archive does not end within {timeout_s:.0f} s") from None
        if code != 0:
            raise Gone(f"the archive ended with {code}")

    def bury(self) -> None:
        """Kill what is left of its session; once only, for then the number may be another's."""
        while not self._buried:
            left = members(self.process.pid)
            for pid in left:
                kill(pid)
            self._buried = not left
            time.sleep(LOOK_S)
        self.process.wait()

    def find(self, what: bytes) -> list[int]:
        """Its processes whose command has `what` in it, and its JVM's."""
        mine = members(self.process.pid)
        if self._jvm is not None:
            mine += members(self._jvm.session)
        return [pid for pid in mine if what in command_of(pid)]


def kill(pid: int) -> None:
    """SIGKILL, unless it has just ended."""
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def members(session: int) -> list[int]:
    """Living processes of a session, its leader too."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, of, *_ = stat.read_text().rpartition(")")[2].split()
        except (OSError, ValueError):
            continue
        if int(of) == session and state not in "ZX":
            found.append(int(stat.parent.name))
    return found


def command_of(pid: int) -> bytes:
    """Its command line; nothing once it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def main(namesrv: str, table: str, format: str, mode: str, steps: str, *more: str) -> None:
    """Be the driver."""
    options = ArchiveOptions(
        namesrv,
        (TOPIC,),
        table,
        format,
        until_now="until-now" in more,
        interval_s=INTERVAL_S,
        # In peace what the dead have left over goes in large batches.
        max_rows=MAX_ROWS if "until-now" in more else BATCH_ROWS,
        compact_every=COMPACT_EVERY,
        failover_timeout_ms=FAILOVER_TIMEOUT_MS,
    )
    with open(steps, "ab", buffering=0) as out:

        def note(step: str) -> None:
            out.write(f"{step} {time.monotonic_ns()}\n".encode())
            if step == "claimed" and is_shared():
                end_left_over()

        run_archive(options, master=mode, on_step=note)


if __name__ == "__main__":
    main(*sys.argv[1:])
