"""Keeps the users equal to RocketMQ's files of ACL 1.0 (`aclEnable`), which an operator edits.

The files are looked at every five seconds. The master makes the accounts in its files the users of
the group, with the policies of `auth/plain_acl.py`; its replicas copy them. Files that cannot be
used change nothing: an editor may not have finished.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from epochmq.auth.accounts import Account, AccountTable, Cipher
from epochmq.auth.users import BadUser
from epochmq.base.errors import ConfigError

if TYPE_CHECKING:
    from epochmq.auth.plain_acl import PlainAccount  # PyYAML is in the extra `auth`

log = logging.getLogger(__name__)

T = TypeVar("T")

LOOK_MS = 5_000
"""How often the files are looked at; RocketMQ's period."""

Stamps = tuple[tuple[str, int, int], ...]
"""Name, time of the last change (ns) and size of each file."""


class Background(Protocol):
    """Runs `call` in a thread, and then `done` with its result on the event loop."""

    def __call__(self, call: Callable[[], T], done: Callable[[T | None], None]) -> None: ...


@dataclass(frozen=True, slots=True)
class FileAccounts:
    """What the files say; `stamps` are those of before the read."""

    stamps: Stamps
    plain: "dict[str, PlainAccount]"
    accounts: list[Account]
    notes: tuple[str, ...]


def read_accounts(path: str, cipher: Cipher, known: FileAccounts | None = None) -> FileAccounts:
    """Read the files; blocks. Accounts that are as in `known` keep their encrypted passwords.

    Raises `ConfigError`: the files cannot be used, or have no accounts.
    """
    from epochmq.auth.plain_acl import read_plain_acl

    stamps = tuple(_stamps(Path(path)))
    found = read_plain_acl(path)
    if not found.accounts:
        raise ConfigError([f"{path} has no accounts"])
    plain = {each.name: each for each in found.accounts}
    before = {} if known is None else {each.name: each for each in known.accounts}

    def account(given: "PlainAccount") -> Account:
        if known is not None and known.plain.get(given.name) == given:
            return before[given.name]
        return encrypted(given, cipher)

    return FileAccounts(stamps, plain, [account(each) for each in found.accounts], found.notes)


def encrypted(given: "PlainAccount", cipher: Cipher) -> Account:
    """Return an account of the files as the table stores it."""
    sealed = cipher.encrypt(given.password)
    return Account(given.name, sealed, given.type, policies=given.policies)


class AclFiles:
    """The accounts of the files, and whether the table of a master has them."""

    def __init__(self, path: str, cipher: Cipher, kept: tuple[str, ...]) -> None:
        """Read the files; blocks.

        Args:
            path: plain_acl.yml, or RocketMQ's directory conf with it and with acl/*.yml.
            cipher: encrypts the passwords.
            kept: names of users that are not in the files and stay.

        Raises:
            ConfigError: the files cannot be used.
        """
        self._path = path
        self._cipher = cipher
        self._kept = kept
        self._is_applied = False
        self._is_looking = False
        self._problem = ""
        self._found = read_accounts(path, cipher)
        self._log_notes()

    def look(self, background: Background) -> None:
        """Read the files again if they changed, in the background."""
        if not self._is_looking:
            self._is_looking = True
            background(self._read_if_changed, self._looked)

    def tick(self, table: AccountTable, wall: int, *, changes: bool) -> None:
        """Make the table of a master what the files say; `wall` is Unix ms.

        A broker without the right to make changes copies its master's table; when it becomes
        master it applies its own files.
        """
        if not changes:
            self._is_applied = False
        elif not self._is_applied:
            self._is_applied = True
            try:
                changed = table.replace_all(self._found.accounts, self._kept, wall)
            except BadUser as error:
                self._report(str(error))
                return
            if changed:
                log.warning(
                    "%(count)d users are now as %(path)s says: %(users)s",
                    {"count": len(changed), "path": self._path, "users": ", ".join(changed[:20])},
                )

    def _read_if_changed(self) -> FileAccounts | str:
        """Return what the files say now, or why they cannot be used."""
        if tuple(_stamps(Path(self._path))) == self._found.stamps:
            return self._found
        try:
            return read_accounts(self._path, self._cipher, self._found)
        except ConfigError as error:
            return str(error)

    def _looked(self, found: FileAccounts | str | None) -> None:
        self._is_looking = False
        if isinstance(found, str):
            self._report(found)
        elif found is not None and found is not self._found:
            self._found, self._is_applied, self._problem = found, False, ""
            self._log_notes()

    def _log_notes(self) -> None:
        for note in self._found.notes:
            log.warning("%(note)s", {"note": note})

    def _report(self, problem: str) -> None:
        """Log a problem once."""
        if problem != self._problem:
            self._problem = problem
            log.error("the users stay as they are: %(problem)s", {"problem": problem})


def _stamps(root: Path) -> Iterator[tuple[str, int, int]]:
    files = [root / "plain_acl.yml", *(root / "acl").rglob("*")] if root.is_dir() else [root]
    for file in sorted(files):
        try:
            stat = file.stat()
        except OSError:
            continue
        yield str(file), stat.st_mtime_ns, stat.st_size
