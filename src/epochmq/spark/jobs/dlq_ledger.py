"""The ledger of resent dead letters, an append-only file: a letter in it is never sent again.

It has JSON lines. A run begins with the list of letters to send, in order; then follows a line for
each message that a broker has acknowledged. An interrupted run is finished before another one
starts. Its next message may or may not have been sent, so brokers are asked for it by its id.

The file is locked while letters are sent; anybody may read it meanwhile.
"""

import fcntl
import json
import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from epochmq.base.errors import EnvironmentFault, UsageError

FORWARDS_MAX = 1_000_000
"""The most letters in one run."""


@dataclass(slots=True)
class LetterRun:
    """A run that sends letters (by place) to `topic` in this order; `sent` is how many were."""

    id: str
    group: str
    topic: str
    places: list[str]
    sent: int = 0

    @property
    def is_finished(self) -> bool:
        return self.sent >= len(self.places)


class LedgerInUse(EnvironmentFault):
    """Raised when letters are being sent with this ledger already."""


@dataclass
class Ledger:
    """A ledger, made by `open_ledger` to send letters, or by `read_ledger`."""

    path: Path
    group: str
    done: dict[str, str] = field(default_factory=dict)
    """Place of the letter -> offset id of the resent message."""
    run: LetterRun | None = None
    """The last run."""
    _file: IO[bytes] | None = None

    @property
    def unfinished(self) -> LetterRun | None:
        return self.run if self.run is not None and not self.run.is_finished else None

    def begin(self, topic: str, places: Sequence[str]) -> LetterRun:
        """Start a new run; its places must not be in the ledger yet."""
        if len(places) > FORWARDS_MAX:
            raise UsageError(f"{len(places)} letters at one time are too many; pick fewer")
        run = LetterRun(uuid.uuid4().hex, self.group, topic, list(places))
        self._write({"run": run.id, "group": run.group, "topic": topic, "places": run.places})
        self.run = run
        return run

    def sent(self, place: str, msg_id: str, offset_id: str) -> None:
        """Record that a broker has acknowledged the next message of the run."""
        run = self.unfinished
        assert run is not None
        assert run.places[run.sent] == place
        run.sent += 1
        self.done[place] = offset_id
        self._write({"sent": run.sent, "place": place, "msgId": msg_id, "offsetMsgId": offset_id})

    def _write(self, line: dict[str, object]) -> None:
        assert self._file is not None, "a ledger that was only read cannot be written"
        try:
            self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise EnvironmentFault(f"cannot write {self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


def open_ledger(path: Path, group: str) -> Ledger:
    """Open and lock the ledger of `group` at `path`; a file is created if there is none.

    An incomplete last line, from a crash, is removed.

    Raises:
        LedgerInUse: another run sends letters with it.
        EnvironmentFault: the file cannot be used.
        UsageError: it is another group's ledger or another kind of file.
    """
    ledger = Ledger(path, group)
    try:
        file = path.open("a+b")
    except OSError as error:
        raise EnvironmentFault(f"cannot use {path}: {error.strerror}") from error
    try:
        _lock(file, path)
        file.seek(0)
        data = file.read()
        whole = _load(ledger, data)
        if whole < len(data):
            file.truncate(whole)
    except BaseException:
        file.close()
        raise
    ledger._file = file
    return ledger


def read_ledger(path: Path, group: str) -> Ledger:
    """Read the ledger of `group` at `path`, and change nothing; it is empty if there is no file.

    Raises:
        EnvironmentFault: the file cannot be read.
        UsageError: it is another group's ledger or another kind of file.
    """
    ledger = Ledger(path, group)
    try:
        _load(ledger, path.read_bytes())
    except FileNotFoundError:
        pass
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error
    return ledger


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        raise LedgerInUse(
            f"letters are being sent with {path} already; try again when that has ended"
        ) from None


def _load(ledger: Ledger, data: bytes) -> int:
    """Add the complete lines of `data`; return the number of their bytes."""
    end = data.rfind(b"\n") + 1
    for line in data[:end].split(b"\n")[:-1]:
        _add(ledger, line)
    return end


def _add(ledger: Ledger, line: bytes) -> None:
    try:
        row = json.loads(line)
        if "run" in row:
            ledger.run = LetterRun(row["run"], row["group"], row["topic"], row["places"])
        else:
            assert ledger.run is not None
            ledger.run.sent = row["sent"]
            ledger.done[row["place"]] = row["offsetMsgId"]
    except (ValueError, KeyError, TypeError, AssertionError):
        raise UsageError(f"{ledger.path} is not a ledger of re-driven letters") from None
    if ledger.run.group != ledger.group:
        raise UsageError(
            f"{ledger.path} is the ledger of group {ledger.run.group}; {ledger.group} needs its own"
        )
