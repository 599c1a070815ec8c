"""Subscription groups: the configurations of consumer groups, with permissions and retries.

RocketMQ's SubscriptionGroupManager. File: config/subscriptionGroup.json, which also has the topics
that a group must not read; later changes are in config/tables.journal.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.state.row_changes import RowChanges, TablePart
from epochmq.broker.state.saved_files import named_rows, readable
from epochmq.broker.state.topic_table import changed_names
from epochmq.model import names
from epochmq.model.data_version import DataVersion
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.group_bodies import SubscriptionGroupTable

_SYSTEM_ERROR = 1
GROUP_BYTES = 512
"""A group in JSON, about."""


class GroupTable:
    """Group configurations by name; the configurations themselves are never changed in place."""

    file = "config/subscriptionGroup.json"
    replicas_know_deltas: ClassVar[bool] = False

    def __init__(self, *, auto_create: bool = True) -> None:
        self.auto_create = auto_create
        self.state_version = 0
        self.version = DataVersion()
        self.dirty = False
        self.frozen = False
        """True at a replica: new groups are returned but not stored; the master decides."""
        self.table: dict[str, SubscriptionGroupConfig] = {}
        self.forbidden_table: dict[str, dict[str, int]] = {}
        self.touched: dict[str, None] = {}
        """Names of groups that changed since `pop_changes`."""
        self.changes = RowChanges[str]()
        """For the copies of replicas."""
        for group in sorted(names.SYSTEM_GROUPS):
            self.table[group] = SubscriptionGroupConfig(group_name=group)
            self.changes.touch(group)

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        return self.table.get(group)

    def __contains__(self, group: object) -> bool:
        return group in self.table

    def __len__(self) -> int:
        return len(self.table)

    def find(self, group: str, wall: int) -> SubscriptionGroupConfig | None:
        """Return the group, created if autoCreateSubscriptionGroup allows it.

        None if it is unknown and cannot be created. System groups can always be created.
        """
        config = self.table.get(group)
        if config is not None:
            return config
        if not (self.auto_create or names.is_system_group(group)):
            return None
        try:
            names.check_group(group)
        except Refused:
            return None
        if len(self.table) >= limits.GROUPS_MAX:
            return None
        config = SubscriptionGroupConfig(group_name=group)
        self._store(config, wall)
        return config

    def put(self, config: SubscriptionGroupConfig, wall: int) -> None:
        """Create or replace a group for an admin; raises `Refused` (code 1)."""
        check_group_config(config)
        if config.group_name not in self.table and len(self.table) >= limits.GROUPS_MAX:
            raise Refused(_SYSTEM_ERROR, f"this broker has {limits.GROUPS_MAX} groups already")
        self._store(config, wall)

    def delete(self, group: str, wall: int) -> bool:
        """Remove a group and its forbidden topics; return whether the group existed."""
        existed = group in self.table
        if self._remove(group):
            self._step(wall)
        return existed

    def _remove(self, group: str) -> bool:
        """Remove the rows of a group in both tables; return whether there was one."""
        rows = self.table.pop(group, None), self.forbidden_table.pop(group, None)
        if rows == (None, None):
            return False
        self.touched[group] = None
        self.changes.remove(group)
        return True

    def adopt(
        self,
        table: Mapping[str, SubscriptionGroupConfig],
        forbidden: Mapping[str, dict[str, int]],
        version: DataVersion,
    ) -> None:
        """Replace the table by the master's; system groups stay."""
        if version == self.version and table == self.table:
            return
        old, barred = self.table, self.forbidden_table
        own = {name: config for name, config in old.items() if names.is_system_group(name)}
        self.table = {**own, **table}
        self.forbidden_table = {name: row for name, row in forbidden.items() if row}
        self.touched |= changed_names(old, self.table)
        self.touched |= changed_names(barred, self.forbidden_table)
        self.changes.renew(dict.fromkeys((*self.table, *self.forbidden_table)))
        self.version = version
        self.dirty = True

    def adopt_changes(
        self,
        changed: Mapping[str, SubscriptionGroupConfig],
        forbidden: Mapping[str, dict[str, int]],
        removed: Iterable[str],
        version: DataVersion,
    ) -> None:
        """Apply the master's changes; system groups stay. An empty row of `forbidden` is none."""
        for name in removed:
            if not names.is_system_group(name):
                self._remove(name)
        for name, config in changed.items():
            if self.table.get(name) != config:
                self.table[name] = config
                self._note(name)
        for name, row in forbidden.items():
            if self.forbidden_table.get(name, {}) != row:
                self.forbidden_table.pop(name, None)
                if row:
                    self.forbidden_table[name] = row
                self._note(name)
        self.version = version
        self.changes.step()
        self.dirty = True

    def forbidden(self, group: str, topic: str) -> int:
        """Return the bits of what the group must not do with the topic (1 << 2: read); 0: none."""
        topics = self.forbidden_table.get(group)
        return 0 if topics is None else max(0, topics.get(topic, 0))

    def set_forbidden(self, group: str, topic: str, bits: int, wall: int) -> None:
        """Replace the forbidden bits of a topic; 0 removes them. Raises `Refused` at the limit."""
        topics = self.forbidden_table.setdefault(group, {})
        if bits > 0:
            if topic not in topics and len(topics) >= limits.SUBSCRIPTIONS_PER_GROUP_MAX:
                raise Refused(_SYSTEM_ERROR, f"too many forbidden topics for group {group}")
            topics[topic] = bits
        else:
            topics.pop(topic, None)
        if not topics:
            del self.forbidden_table[group]
        self._note(group)
        self._step(wall)

    def _store(self, config: SubscriptionGroupConfig, wall: int) -> None:
        if self.frozen:
            return
        self.table[config.group_name] = config
        self._note(config.group_name)
        self._step(wall)

    def _note(self, group: str) -> None:
        self.touched[group] = None
        self.changes.touch(group)

    def _step(self, wall: int) -> None:
        self.version = self.version.next_version(wall, self.state_version)
        self.changes.step()
        self.dirty = True

    def weigh(self, group: str) -> int:
        """Return the estimated bytes of a group in JSON."""
        return GROUP_BYTES + 64 * len(self.forbidden_table.get(group, ()))

    def encode_part(self, part: TablePart[str]) -> bytes:
        """Return the body of GET_ALL_SUBSCRIPTIONGROUP_CONFIG with the rows of a part."""
        table = {name: self.table[name] for name in part.rows if name in self.table}
        forbidden = {name: self.forbidden_table.get(name, {}) for name in part.rows}
        if not part.is_delta:
            forbidden = {name: row for name, row in forbidden.items() if row}
        removed = part.removed or UNSET
        return encode_body(SubscriptionGroupTable(table, forbidden, self.version, removed))

    def encode(self) -> bytes:
        return self.snapshot()()

    def snapshot(self) -> Callable[[], bytes]:
        """Copy the present table; the returned function encodes it, in any thread."""
        content = {
            **self.content(),
            "forbiddenTable": {name: dict(row) for name, row in self.forbidden_table.items()},
            "subscriptionGroupTable": dict(self.table),
        }
        return lambda: readable(content)

    def pop_changes(self) -> dict[str, Any]:
        """Return the changes since the last call, for the journal."""
        touched, self.touched = self.touched, {}
        return {
            "dataVersion": self.version,
            "put": {name: self.table[name] for name in touched if name in self.table},
            "drop": [name for name in touched if name not in self.table],
            "forbidden": {name: dict(self.forbidden_table.get(name, {})) for name in touched},
        }

    def give_back(self, changes: Mapping[str, Any]) -> None:
        """Take back changes of `pop_changes` that could not be saved."""
        self.touched |= dict.fromkeys(changes["forbidden"])

    def apply_changes(self, changes: Mapping[str, Any]) -> None:
        """Apply changes of `pop_changes` that were read from the journal."""
        forbidden = msgspec.convert(changes.get("forbidden", {}), dict[str, dict[str, int]])
        self.load(
            {**changes, "subscriptionGroupTable": changes.get("put"), "forbiddenTable": forbidden}
        )
        for name in msgspec.convert(changes.get("drop", []), list[str]):
            if self.table.pop(name, None) is not None:
                self.changes.remove(name)
        for name in [name for name, row in forbidden.items() if not row]:
            self.forbidden_table.pop(name, None)

    def content(self) -> dict[str, Any]:
        """The shape of the file and of GET_ALL_SUBSCRIPTIONGROUP_CONFIG's body."""
        return {
            "dataVersion": self.version,
            "forbiddenTable": self.forbidden_table,
            "subscriptionGroupTable": self.table,
        }

    def load(self, content: dict[str, Any]) -> None:
        """Load subscriptionGroup.json; files of 4.x have no forbidden table."""
        rows = named_rows(content.get("subscriptionGroupTable"), "groupName")
        table = msgspec.convert(rows, dict[str, SubscriptionGroupConfig], strict=False)
        forbidden = msgspec.convert(
            content.get("forbiddenTable") or {}, dict[str, dict[str, int]], strict=False
        )
        version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
        self.table.update(table)
        self.forbidden_table.update(forbidden)
        for group in (*table, *forbidden):
            self.changes.touch(group)
        self.version = version


def check_group_config(config: SubscriptionGroupConfig) -> None:
    """Raise `Refused` (code 1) unless name and numbers can be served."""
    names.check_group(config.group_name)
    if not 0 <= config.retry_queue_nums <= limits.QUEUES_PER_TOPIC_MAX:
        raise Refused(
            _SYSTEM_ERROR,
            f"retryQueueNums {config.retry_queue_nums} is not within"
            f" 0..{limits.QUEUES_PER_TOPIC_MAX}",
        )
    if config.retry_max_times < -1:
        raise Refused(_SYSTEM_ERROR, f"retryMaxTimes {config.retry_max_times} is below -1")
