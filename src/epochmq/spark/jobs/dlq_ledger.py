"""The ledger of resent dead letters, an append-only file: a letter in it is never sent again.

It has JSON lines. A run begins with the list of letters to send, in order; then follows a line for
each message that a broker has acknowledged. An interrupted run is finished before another one
starts. Its next message may or may not have been sent, so brokers are asked for it by its id.
"""

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


@dataclass
class Ledger:
    """An open ledger, made by `open_ledger`; one process at a time may use it."""

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
        try:
            if self._file is None:
                self._file = self.path.open("ab")
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
    """Open the ledger of `group` at `path`; it is empty when there is no file.

    An incomplete last line, from a crash, is dropped. Raises `UsageError` for another group's
    ledger or another kind of file.
    """
    ledger = Ledger(path, group)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ledger
    except OSError as error:
        raise EnvironmentFault(f"cannot read {path}: {error.strerror}") from error
    whole, _, torn = data.rpartition(b"\n")
    for line in whole.split(b"\n") if whole else []:
        _take(ledger, line)
    if torn:
        os.truncate(path, len(whole) + 1 if whole else 0)
    return ledger


def _take(ledger: Ledger, line: bytes) -> None:
    try:
        row = json.loads(line)
        if "run" in row:
            ledger.run = LetterRun(row["run"], row["group"], row["topic"], row["places"])
        else:
            assert ledger.run is not None
            ledger.run.sent = row["sent"]
            ledger.done[row["place"]] = row["offsetMsgId"]
    except (ValueError, KeyError, TypeError, AssertionError):
        raise UsageError(f"{ledger.path} is no ledger of re-driven letters") from None
    if ledger.run.group != ledger.group:
        raise UsageError(
            f"{ledger.path} is the ledger of group {ledger.run.group}; {ledger.group} needs its own"
        )
