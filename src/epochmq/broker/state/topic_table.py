"""Topic table: the topic configurations of a broker, with attributes and system topics.

RocketMQ's TopicConfigManager. File: config/topics.json, and config/tables.journal for changes since
the file was written. Every change steps the `version` that brokers and name servers compare, marks
the table `dirty`, and is returned once by `pop_changed` for the incremental registration.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import msgspec
from msgspec import UNSET

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.base.unbounded import LONG_MAX
from epochmq.broker.state.row_changes import RowChanges, TablePart
from epochmq.broker.state.saved_files import named_rows, readable
from epochmq.model import names
from epochmq.model.data_version import DataVersion
from epochmq.model.topic import (
    FILTER_TYPES,
    PERM_INHERIT,
    PERM_MASK,
    PERM_READ_WRITE,
    TABLE_ATTRIBUTE,
    TABLE_FORMATS,
    TopicConfig,
    has_batch_queues,
)
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.topic_bodies import TopicConfigTable

# Attributes ----------------------------------------------------------------------------------
# Attributes of a topic: the `+name=value,-name` language that changes them.


ATTRIBUTES_MAX = 16
TEXT_LENGTH_MAX = 2048

_SYSTEM_ERROR = 1
TOPIC_BYTES = 256
"""A topic in JSON, about."""

_MESSAGE_TYPES = frozenset({"UNSPECIFIED", "NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED"})
_CHOICES: Mapping[str, frozenset[str]] = {
    "queue.type": frozenset({"BatchCQ", "SimpleCQ"}),
    "cleanup.policy": frozenset({"DELETE", "COMPACTION"}),
    "message.type": _MESSAGE_TYPES,
    TABLE_ATTRIBUTE: frozenset(TABLE_FORMATS),
}
_FIXED = frozenset({"queue.type", "cleanup.policy"})
"""Attributes that can be set only at creation, because the files on disk depend on them."""


def parse_changes(text: str | None) -> dict[str, str]:
    """Parse attribute changes into {"+name": value, "-name": ""}; empty for an empty text.

    Raises `Refused` (code 1) for any other form.
    """
    if not text:
        return {}
    if len(text) > TEXT_LENGTH_MAX:
        raise Refused(_SYSTEM_ERROR, f"attributes longer than {TEXT_LENGTH_MAX} characters")
    changes: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        _check_form(key, bool(equals))
        if key in changes:
            raise Refused(_SYSTEM_ERROR, f"key duplication: {key}")
        changes[key] = value
    return changes


def _check_form(key: str, has_value: bool) -> None:
    wanted, act = ("+", "add/alter") if has_value else ("-", "delete")
    if not key.startswith(wanted) or len(key) < 2:
        raise Refused(_SYSTEM_ERROR, f"{act} attribute format is wrong: {key}")


def alter(current: Mapping[str, str] | None, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the attributes after `changes` (of `parse_changes`); `current` is None at creation.

    Raises `Refused` (code 1) for an unknown name or value, and for a change that is not allowed.
    """
    result = dict(current or {})
    seen: set[str] = set()
    for key, value in changes.items():
        sign, name = key[:1], key[1:]
        if name in seen:
            raise Refused(_SYSTEM_ERROR, f"alter duplication key. key: {name}")
        seen.add(name)
        _check_change(current, sign, name)
        if sign == "+":
            _check_value(name, value)
            result[name] = value
        else:
            del result[name]
    if len(result) > ATTRIBUTES_MAX:
        raise Refused(_SYSTEM_ERROR, f"more than {ATTRIBUTES_MAX} attributes")
    return result


def _check_change(current: Mapping[str, str] | None, sign: str, name: str) -> None:
    if sign not in "+-" or not sign:
        raise Refused(_SYSTEM_ERROR, f"wrong format key: {name}")
    if name not in _CHOICES and name != "reserve.time":
        raise Refused(_SYSTEM_ERROR, f"unsupported key: {name}")
    if current is None:
        if sign == "-":
            problem = f"only add attribute is supported while creating topic. key: {name}"
            raise Refused(_SYSTEM_ERROR, problem)
        return
    if sign == "-" and name not in current:
        raise Refused(_SYSTEM_ERROR, f"attempt to delete a nonexistent key: {name}")
    if name in _FIXED:
        raise Refused(_SYSTEM_ERROR, f"attempt to update an unchangeable attribute. key: {name}")


def _check_value(name: str, value: str) -> None:
    choices = _CHOICES.get(name)
    if choices is not None:
        if value not in choices:
            known = ", ".join(sorted(choices))
            raise Refused(_SYSTEM_ERROR, f"value {value!r} is not in the set [{known}] of {name}")
        return
    try:
        number = int(value)
    except ValueError:
        number = -2
    if not -1 <= number <= LONG_MAX:
        raise Refused(_SYSTEM_ERROR, f"value {value!r} is not in the range of {name}")


# Topic table ---------------------------------------------------------------------------------


class TopicTable:
    """Topic configurations by name; the configurations themselves are never changed in place."""

    file = "config/topics.json"
    replicas_know_deltas: ClassVar[bool] = False

    def __init__(self, *, auto_create: bool = True) -> None:
        self.auto_create = auto_create
        self.state_version = 0
        self.version = DataVersion()
        self.dirty = False
        self.frozen = False
        """True at a replica: new topics are returned but not stored; the master decides."""
        self.table: dict[str, TopicConfig] = {}
        self.system: frozenset[str] = frozenset()
        self.touched: dict[str, None] = {}
        """Names of topics that changed since `pop_changes`."""
        self.changes = RowChanges[str]()
        """For the copies of replicas."""
        self._changed: dict[str, TopicConfig] = {}

    def get(self, name: str) -> TopicConfig | None:
        return self.table.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self.table

    def __len__(self) -> int:
        return len(self.table)

    def is_system(self, name: str) -> bool:
        """Return whether `name` is a system topic, which admins must not change."""
        return name in self.system or names.is_system_topic(name)

    def has_batch_queues(self, name: str) -> bool | None:
        """Return whether a topic has batch consume queues; None if the topic is unknown."""
        config = self.table.get(name)
        return None if config is None else has_batch_queues(config)

    def is_order(self, name: str) -> bool:
        config = self.table.get(name)
        return config is not None and config.order

    @property
    def changed(self) -> bool:
        """Whether `pop_changed` has something to register."""
        return bool(self._changed)

    def pop_changed(self, is_unsaved: Callable[[str], bool]) -> list[TopicConfig]:
        """Return the topics that changed since the last call, each in its present form.

        Topics for which `is_unsaved` is true are kept for a later call, because a registered topic
        must still exist after a crash.
        """
        changed, self._changed = self._changed, {}
        for name in [name for name in changed if is_unsaved(name)]:
            self._changed[name] = changed.pop(name)
        return list(changed.values())

    def add_system(self, topics: Iterable[TopicConfig]) -> None:
        """Add the system topics that are not in the file; the version does not step."""
        topics = list(topics)
        for config in topics:
            if config.topic_name not in self.table:
                self.table[config.topic_name] = config
                self.changes.touch(config.topic_name)
        self.system = frozenset(config.topic_name for config in topics)

    def create_on_send(
        self, topic: str, default_topic: str, client_queue_nums: int, sys_flag: int, wall: int
    ) -> TopicConfig | None:
        """Return the topic of a send, created from `default_topic` if it does not exist.

        None if the default topic is missing or has no INHERIT permission, or if it is TBW102 and
        autoCreateTopicEnable is off. Raises `Refused` for a bad name or too many topics.
        """
        config = self.table.get(topic)
        if config is not None:
            return config
        default = self.table.get(default_topic)
        if default is None or not default.perm & PERM_INHERIT:
            return None
        if default_topic == names.DEFAULT_TOPIC and not self.auto_create:
            return None
        queues = max(1, min(client_queue_nums, default.write_queue_nums))
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=default.perm & ~PERM_INHERIT,
            topic_filter_type=default.topic_filter_type,
            topic_sys_flag=sys_flag,
        )
        return self._store(config, wall)

    def ensure(
        self,
        topic: str,
        queues: int,
        perm: int,
        wall: int,
        *,
        sys_flag: int = 0,
        order: bool | None = None,
    ) -> TopicConfig:
        """Return the topic, created if missing (%RETRY%, %DLQ%); `order` is updated if given.

        Raises `Refused` for a bad name or too many topics.
        """
        config = self.table.get(topic)
        if config is not None:
            if order is None or config.order == order:
                return config
            return self._store(msgspec.structs.replace(config, order=order), wall)
        config = TopicConfig(
            topic_name=topic,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=perm,
            topic_sys_flag=sys_flag,
            order=bool(order),
        )
        return self._store(config, wall)

    def update(self, config: TopicConfig, changes: Mapping[str, str], wall: int) -> TopicConfig:
        """Create or replace a topic for an admin, and apply `changes` to its attributes.

        If nothing changes, the version does not step. Raises `Refused`.
        """
        old = self.table.get(config.topic_name)
        final = alter(old.attributes if old is not None else None, changes)
        config = msgspec.structs.replace(config, attributes=final)
        check_topic_config(config)
        if config == old:
            return config
        return self._store(config, wall)

    def put(self, config: TopicConfig, wall: int) -> TopicConfig:
        """Create or replace a topic with exactly this configuration; raises `Refused`."""
        check_topic_config(config)
        return self._store(config, wall)

    def delete(self, name: str, wall: int) -> bool:
        """Remove a topic; return whether it existed. The caller deletes messages and offsets."""
        self._changed.pop(name, None)
        if self.table.pop(name, None) is None:
            return False
        self.touched[name] = None
        self.changes.remove(name)
        self.step_version(wall)
        return True

    def adopt(self, table: Mapping[str, TopicConfig], version: DataVersion) -> None:
        """Replace the table by the master's; the system topics of this broker stay."""
        if version == self.version and table == self.table:
            return
        old = self.table
        own = {name: own for name, own in old.items() if name in self.system}
        self.table = {**own, **table}
        self.touched |= changed_names(old, self.table)
        self.changes.renew(self.table)
        self._adopted(version)

    def adopt_changes(
        self, changed: Mapping[str, TopicConfig], removed: Iterable[str], version: DataVersion
    ) -> None:
        """Apply the master's changes; the system topics of this broker stay."""
        for name, config in changed.items():
            if self.table.get(name) != config:
                self.table[name] = config
                self.touched[name] = None
                self.changes.touch(name)
        for name in removed:
            if name not in self.system and self.table.pop(name, None) is not None:
                self.touched[name] = None
                self.changes.remove(name)
        self._adopted(version)

    def _adopted(self, version: DataVersion) -> None:
        self.version = version
        self.changes.step()
        self._changed.clear()
        self.dirty = True

    def step_version(self, wall: int) -> None:
        """Step the version, so that others see a change."""
        self.version = self.version.next_version(wall, self.state_version)
        self.changes.step()
        self.dirty = True

    def register_all(self, wall: int) -> None:
        """Register all topics again, now: the broker's permission, which is part of theirs, has
        changed.
        """
        self.step_version(wall)
        self._changed.update(self.table)

    def _store(self, config: TopicConfig, wall: int) -> TopicConfig:
        name = config.topic_name
        if self.frozen:
            return config
        if name not in self.table:
            names.check_topic(name)
            if len(self.table) >= limits.TOPICS_MAX:
                raise Refused(_SYSTEM_ERROR, f"this broker has {limits.TOPICS_MAX} topics already")
        self.table[name] = config
        self._changed[name] = config
        self.touched[name] = None
        self.changes.touch(name)
        self.step_version(wall)
        return config

    def weigh(self, name: str) -> int:
        """Return the estimated bytes of a topic in JSON."""
        return TOPIC_BYTES + 64 * len(self.table[name].attributes)

    def encode_part(self, part: TablePart[str]) -> bytes:
        """Return the body of GET_ALL_TOPIC_CONFIG with the rows of a part."""
        table = {name: self.table[name] for name in part.rows}
        removed = part.removed or UNSET
        return encode_body(
            TopicConfigTable(table, data_version=self.version, epochmq_removed=removed)
        )

    def encode(self) -> bytes:
        return self.snapshot()()

    def snapshot(self) -> Callable[[], bytes]:
        """Copy the present table; the returned function encodes it, in any thread."""
        table, version = dict(self.table), self.version
        return lambda: readable({"dataVersion": version, "topicConfigTable": table})

    def pop_changes(self) -> dict[str, Any]:
        """Return the changes since the last call, for the journal."""
        touched, self.touched = self.touched, {}
        return {
            "dataVersion": self.version,
            "put": {name: self.table[name] for name in touched if name in self.table},
            "drop": [name for name in touched if name not in self.table],
        }

    def give_back(self, changes: Mapping[str, Any]) -> None:
        """Take back changes of `pop_changes` that could not be saved."""
        self.touched |= dict.fromkeys((*changes["put"], *changes["drop"]))

    def apply_changes(self, changes: Mapping[str, Any]) -> None:
        """Apply changes of `pop_changes` that were read from the journal."""
        self.load({**changes, "topicConfigTable": changes.get("put")})
        for name in msgspec.convert(changes.get("drop", []), list[str]):
            if self.table.pop(name, None) is not None:
                self.changes.remove(name)

    def load(self, content: dict[str, Any]) -> None:
        """Load topics.json; the key of each entry becomes its topic name."""
        rows = named_rows(content.get("topicConfigTable"), "topicName")
        table = msgspec.convert(rows, dict[str, TopicConfig], strict=False)
        version = msgspec.convert(content.get("dataVersion") or {}, DataVersion, strict=False)
        self.table.update(table)
        for name in table:
            self.changes.touch(name)
        self.version = version


def changed_names(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, None]:
    """Return the names of rows that differ, or that exist in only one of the tables."""
    changed = dict.fromkeys(name for name in old if name not in new)
    changed |= dict.fromkeys(name for name, row in new.items() if old.get(name) != row)
    return changed


def check_topic_config(config: TopicConfig) -> None:
    """Raise `Refused` if name, queue numbers, permission or filter type are not valid."""
    names.check_topic(config.topic_name)
    for what, count in (("read", config.read_queue_nums), ("write", config.write_queue_nums)):
        if not 1 <= count <= limits.QUEUES_PER_TOPIC_MAX:
            text = f"{what}QueueNums {count} is not within 1..{limits.QUEUES_PER_TOPIC_MAX}"
            raise Refused(_SYSTEM_ERROR, text)
    if not 0 <= config.perm <= PERM_MASK:
        raise Refused(_SYSTEM_ERROR, f"perm {config.perm} has unknown bits")
    if config.topic_filter_type not in FILTER_TYPES:
        known = " or ".join(sorted(FILTER_TYPES))
        raise Refused(_SYSTEM_ERROR, f"topicFilterType {config.topic_filter_type} is not {known}")


# System topics -------------------------------------------------------------------------------
# Topics that every broker creates at its first start.


_SCHEDULE_QUEUES = 18
_BENCHMARK_QUEUES = 1024
_DEFAULT_QUEUES = 16


@dataclass(frozen=True)
class Wishes:
    """The options that decide which system topics exist and how many queues they have."""

    cluster: str
    broker: str
    auto_create: bool = True
    default_queues: int = 8
    cluster_topic: bool = True
    broker_topic: bool = True
    trace_topic: str | None = None
    revive_queues: int = 8
    timer: bool = False


def system_topics(wishes: Wishes) -> list[TopicConfig]:
    """Return the configurations of all system topics, in RocketMQ's order."""
    cluster_perm = PERM_INHERIT | (PERM_READ_WRITE if wishes.cluster_topic else 0)
    broker_perm = PERM_INHERIT | (PERM_READ_WRITE if wishes.broker_topic else 0)
    rows = [
        (names.SELF_TEST_TOPIC, 1, PERM_READ_WRITE),
        (names.BENCHMARK_TOPIC, _BENCHMARK_QUEUES, PERM_READ_WRITE),
        (wishes.cluster, _DEFAULT_QUEUES, cluster_perm),
        (wishes.broker, 1, broker_perm),
        (names.OFFSET_MOVED_TOPIC, 1, PERM_READ_WRITE),
        (names.SCHEDULE_TOPIC, _SCHEDULE_QUEUES, PERM_READ_WRITE),
        (wishes.cluster + names.REPLY_TOPIC_SUFFIX, 1, PERM_READ_WRITE),
        (names.REVIVE_TOPIC_PREFIX + wishes.cluster, wishes.revive_queues, PERM_READ_WRITE),
        (names.MEMBER_TOPIC_PREFIX + wishes.broker, 1, PERM_INHERIT),
        (names.HALF_TOPIC, 1, PERM_READ_WRITE),
        (names.OP_HALF_TOPIC, 1, PERM_READ_WRITE),
        # RocketMQ creates this topic with its first message.
        (names.TRANS_CHECK_MAX_TIME_TOPIC, 1, PERM_READ_WRITE),
    ]
    if wishes.auto_create:
        rows.insert(1, (names.DEFAULT_TOPIC, wishes.default_queues, PERM_INHERIT | PERM_READ_WRITE))
    if wishes.trace_topic is not None:
        rows.append((wishes.trace_topic, 1, PERM_READ_WRITE))
    if wishes.timer:
        rows.append((names.TIMER_TOPIC, 1, PERM_READ_WRITE))
    return [_topic(*row) for row in rows]


def _topic(name: str, queues: int, perm: int) -> TopicConfig:
    return TopicConfig(topic_name=name, read_queue_nums=queues, write_queue_nums=queues, perm=perm)
