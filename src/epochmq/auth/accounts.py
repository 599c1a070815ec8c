"""Accounts: the users of a cluster with their policies. File: config/accounts.json.

Passwords are encrypted in the file, in its journal and on the way to replicas. A replica copies the
table of its master, so that a new master has the same users.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import msgspec

from epochmq.auth.policies import (
    BadPolicy,
    Policies,
    PolicyEntry,
    PolicyType,
    Resource,
    merged,
    parse_actions,
    parse_decision,
    parse_policy_type,
    parse_resource,
    parse_source_ips,
    without,
)
from epochmq.auth.users import (
    BadUser,
    UserStatus,
    UserType,
    check_user,
    parse_user_status,
    parse_user_type,
)
from epochmq.base import limits
from epochmq.model.data_version import DataVersion
from epochmq.wire import json_tolerant


class WrongKey(ValueError):
    """A password that was encrypted with another key."""


class Cipher(Protocol):
    """Encrypts passwords; `auth/password_cipher.py` has the implementation."""

    def encrypt(self, password: str) -> str:
        """Return `password` encrypted, as ASCII text."""
        ...

    def decrypt(self, text: str) -> str:
        """Return the password in `text`; raises `WrongKey`."""
        ...


@dataclass(frozen=True, slots=True)
class Account:
    """A user and its policies; `sealed` is the encrypted password."""

    name: str
    sealed: str = field(repr=False)
    type: UserType = UserType.NORMAL
    status: UserStatus = UserStatus.ENABLE
    policies: Policies = field(default_factory=dict)


class AccountTable:
    """The accounts by user name; accounts are never changed in place."""

    file = "config/accounts.json"

    def __init__(self) -> None:
        self.dirty: bool = False
        self.state_version = 0
        self.version: DataVersion = DataVersion()
        self.touched: dict[str, None] = {}
        """Names of accounts that changed since `pop_changes`."""
        self._table: dict[str, Account] = {}
        self._initial: tuple[str, ...] = ()
        self._cipher: Cipher | None = None
        self._passwords: dict[str, str] = {}
        """Decrypted passwords by their encrypted form."""
        self._copied: dict[str, tuple[object, Account]] = {}
        """The rows of the last copy from a master, as they were sent and as they were read."""
        self._encoded: tuple[DataVersion, bytes] | None = None

    def __len__(self) -> int:
        return len(self._table)

    def get(self, name: str) -> Account | None:
        """Return the account of a user; None if there is no such user."""
        return self._table.get(name)

    def all(self) -> list[Account]:
        """Return all accounts, in the order of their names."""
        return [self._table[name] for name in sorted(self._table)]

    def unlock(self, cipher: Cipher) -> None:
        """Use `cipher` for passwords; raises `WrongKey` if it does not fit the loaded ones."""
        self._cipher = cipher
        self._check_key(self._table)

    @property
    def is_unlocked(self) -> bool:
        """Whether there is a key, so that users can be stored."""
        return self._cipher is not None

    def password(self, account: Account) -> str:
        """Return the password of an account; raises `WrongKey`."""
        known = self._passwords.get(account.sealed)
        if known is None:
            if len(self._passwords) >= limits.USERS_MAX:
                self._passwords.clear()
            known = self._passwords[account.sealed] = self._unlocked().decrypt(account.sealed)
        return known

    def _unlocked(self) -> Cipher:
        if self._cipher is None:
            raise WrongKey("there is no key for passwords")
        return self._cipher

    # Changes ---------------------------------------------------------------------------------

    def put_user(
        self,
        name: str,
        wall: int,
        *,
        password: str | None = None,
        type: UserType | None = None,
        status: UserStatus | None = None,
    ) -> None:
        """Create a user, or change what is given; `wall` is Unix ms.

        Raises:
            BadUser: name or password cannot be used, or there are too many users.
        """
        old = self._table.get(name)
        if old is None:
            check_user(name, password or "")
            if len(self._table) >= limits.USERS_MAX:
                raise BadUser(f"there are {limits.USERS_MAX} users already")
            old = Account(name, "")
        elif password is not None:
            check_user(name, password)
        sealed = old.sealed if password is None else self._unlocked().encrypt(password)
        found = replace(old, sealed=sealed, type=type or old.type, status=status or old.status)
        self._store(found, wall)

    def put_initial(self, name: str, password: str, wall: int) -> bool:
        """Create the Super user of a new cluster as `put_once` does; return whether it was."""
        check_user(name, password)
        is_new = name not in self._initial and name not in self._table
        sealed = self._unlocked().encrypt(password)
        refused = self.put_once([Account(name, sealed, UserType.SUPER)], wall)
        return is_new and not refused

    def put_once(self, accounts: Iterable[Account], wall: int) -> list[str]:
        """Create users that the configuration names; return the names that the limits refuse.

        Each is created once: a user that was changed or deleted later does not return.
        """
        refused: list[str] = []
        known = dict.fromkeys(self._initial)
        entries_left = limits.POLICY_ENTRIES_TOTAL_MAX - self._count_entries()
        for account in accounts:
            name = account.name
            if name in known:
                continue
            if name in self._table:
                self._step(name, wall)
            elif len(self._table) >= limits.USERS_MAX or _count(account.policies) > entries_left:
                refused.append(name)
                continue
            else:
                entries_left -= _count(account.policies)
                self._store(account, wall)
            known[name] = None
        self._initial = tuple(known)
        return refused

    def replace_all(
        self, accounts: Sequence[Account], kept: Collection[str], wall: int
    ) -> list[str]:
        """Make `accounts` the only ones besides those with the names `kept`.

        Returns the names of the accounts that changed. Raises `BadUser` if the limits do not allow
        these accounts; then nothing has changed.
        """
        wanted = {each.name: each for each in accounts if each.name not in kept}
        others = [each for name, each in self._table.items() if name in kept]
        entries = sum(_count(each.policies) for each in (*wanted.values(), *others))
        if len(wanted) + len(others) > limits.USERS_MAX:
            raise BadUser(f"there would be more than {limits.USERS_MAX} users")
        if entries > limits.POLICY_ENTRIES_TOTAL_MAX:
            most = limits.POLICY_ENTRIES_TOTAL_MAX
            raise BadUser(f"there would be more than {most} entries of policies; use defaults")
        dropped = [name for name in self._table if name not in wanted and name not in kept]
        for name in dropped:
            self.delete_user(name, wall)
        changed = [each for each in wanted.values() if not self._has(each)]
        for each in changed:
            self._store(each, wall)
        return sorted([*dropped, *(each.name for each in changed)])

    def _has(self, account: Account) -> bool:
        """Return whether there is this account; encryption gives another text each time."""
        known = self._table.get(account.name)
        if known is None or replace(known, sealed="") != replace(account, sealed=""):
            return False
        return known.sealed == account.sealed or self.password(known) == self.password(account)

    def delete_user(self, name: str, wall: int) -> bool:
        """Remove a user and its policies; return whether the user existed."""
        if self._table.pop(name, None) is None:
            return False
        self._step(name, wall)
        return True

    def put_policies(
        self,
        account: Account,
        added: Iterable[tuple[PolicyType, list[PolicyEntry]]],
        wall: int,
    ) -> None:
        """Add entries to policies of an account; raises `BadPolicy` when there are too many."""
        policies = account.policies
        for kind, entries in added:
            policies = merged(policies, kind, entries)
        others = self._count_entries() - _count(account.policies)
        if others + _count(policies) > limits.POLICY_ENTRIES_TOTAL_MAX:
            most = limits.POLICY_ENTRIES_TOTAL_MAX
            raise BadPolicy(f"there would be more than {most} entries of all users; use prefixes")
        self._store(replace(account, policies=policies), wall)

    def delete_policy(
        self, account: Account, kind: PolicyType, resource: Resource | None, wall: int
    ) -> None:
        """Remove the entry of a resource from a policy, or with None all policies."""
        policies = {} if resource is None else without(account.policies, kind, resource)
        self._store(replace(account, policies=policies), wall)

    def _count_entries(self) -> int:
        return sum(_count(each.policies) for each in self._table.values())

    def _store(self, account: Account, wall: int) -> None:
        self._table[account.name] = account
        self._step(account.name, wall)

    def _step(self, name: str, wall: int) -> None:
        self.touched[name] = None
        self.version = self.version.next_version(wall, self.state_version)
        self.dirty = True

    def adopt(self, content: Mapping[str, Any]) -> None:
        """Replace the table by the master's; raises `ValueError` if it cannot be used here.

        Only rows that changed since the last copy are read: all rows of a full table take longer
        than the event loop may stand still.
        """
        initial, version = _read_head(content)
        copied: dict[str, tuple[object, Account]] = {}
        for name, raw in _raw_rows(content).items():
            known = self._copied.get(name)
            if known is None or known[0] != raw:
                known = raw, _account(name, msgspec.convert(raw, _AccountRow))
            copied[name] = known
        rows = {name: account for name, (_, account) in copied.items()}
        self._check_key(rows)
        self._copied = copied
        if version == self.version and rows == self._table:
            return
        old, self._table = self._table, rows
        names = old.keys() | rows.keys()
        self.touched |= {name: None for name in names if old.get(name) != rows.get(name)}
        self._initial, self.version = initial, version
        self.dirty = True

    def _check_key(self, rows: Mapping[str, Account]) -> None:
        """Decrypt one password; all were encrypted with the same key."""
        for account in rows.values():
            self.password(account)
            return

    # Saving ----------------------------------------------------------------------------------

    def content(self) -> dict[str, Any]:
        """The shape of the file, and of the answer to a replica."""
        return {
            "dataVersion": self.version,
            "initialUsers": self._initial,
            "accounts": {name: _row(account) for name, account in self._table.items()},
        }

    def encoded_content(self) -> bytes:
        """Return `content` as JSON; of one version it is encoded once, for all replicas."""
        if self._encoded is None or self._encoded[0] is not self.version:
            self._encoded = self.version, msgspec.json.encode(self.content())
        return self._encoded[1]

    def encode(self) -> bytes:
        return self.snapshot()()

    def snapshot(self) -> Callable[[], bytes]:
        """Copy the present table; the returned function encodes it, in any thread."""
        content = {**self.content(), "accounts": dict(self._table)}

        def encode() -> bytes:
            rows = {name: _row(account) for name, account in content["accounts"].items()}
            text = json_tolerant.dumps({**content, "accounts": rows})
            return msgspec.json.format(text, indent=2)

        return encode

    def pop_changes(self) -> dict[str, Any]:
        """Return the changes since the last call, for the journal."""
        touched, self.touched = self.touched, {}
        return {
            "dataVersion": self.version,
            "initialUsers": self._initial,
            "put": {name: _row(self._table[name]) for name in touched if name in self._table},
            "drop": [name for name in touched if name not in self._table],
        }

    def give_back(self, changes: Mapping[str, Any]) -> None:
        """Take back changes of `pop_changes` that could not be saved."""
        self.touched |= dict.fromkeys([*changes["put"], *changes["drop"]])

    def apply_changes(self, changes: Mapping[str, Any]) -> None:
        """Apply changes of `pop_changes` that were read from the journal."""
        self.load({**changes, "accounts": changes.get("put")})
        for name in msgspec.convert(changes.get("drop", []), list[str]):
            self._table.pop(name, None)

    def load(self, content: Mapping[str, Any]) -> None:
        """Load accounts.json; raises `ValueError` if it is not one."""
        self._initial, self.version = _read_head(content)
        rows = msgspec.convert(_raw_rows(content), dict[str, _AccountRow])
        self._table.update({name: _account(name, row) for name, row in rows.items()})


# Rows ----------------------------------------------------------------------------------------


class _EntryRow(msgspec.Struct, omit_defaults=True):
    resource: str
    actions: list[str]
    decision: str
    sourceIps: list[str] = []


class _AccountRow(msgspec.Struct):
    password: str
    userType: str
    userStatus: str
    policies: dict[str, list[_EntryRow]] = {}


def _row(account: Account) -> _AccountRow:
    policies = {
        str(kind): [
            _EntryRow(
                str(entry.resource),
                sorted(entry.actions),
                str(entry.decision),
                list(entry.source_ips),
            )
            for entry in entries
        ]
        for kind, entries in account.policies.items()
    }
    return _AccountRow(account.sealed, str(account.type), str(account.status), policies)


def _read_head(content: Mapping[str, Any]) -> tuple[tuple[str, ...], DataVersion]:
    initial = msgspec.convert(content.get("initialUsers") or (), tuple[str, ...])
    version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
    return initial, version


def _raw_rows(content: Mapping[str, Any]) -> dict[str, Any]:
    rows: dict[str, Any] = msgspec.convert(content.get("accounts") or {}, dict[str, Any])
    if len(rows) > limits.USERS_MAX:
        raise ValueError(f"more than {limits.USERS_MAX} users")
    return rows


def _count(policies: Policies) -> int:
    return sum(map(len, policies.values()))


def _account(name: str, row: _AccountRow) -> Account:
    policies: Policies = {}
    for kind, entries in row.policies.items():
        read = [
            PolicyEntry(
                parse_resource(entry.resource),
                parse_actions(entry.actions),
                parse_source_ips(entry.sourceIps),
                parse_decision(entry.decision),
            )
            for entry in entries
        ]
        policies = merged(policies, parse_policy_type(kind), read)
    type_, status = parse_user_type(row.userType), parse_user_status(row.userStatus)
    return Account(name, row.password, type_, status, policies)
