"""Message request modes: whether a group reads a topic by pull or by POP (set with code 401).

File: config/messageRequestMode.json, in the format of the body of code 402.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from epochmq.base import limits
from epochmq.base.errors import Refused
from epochmq.broker.state.saved_files import readable
from epochmq.model import names
from epochmq.wire.bodies.pop_bodies import (
    MODE_POP,
    MODE_PULL,
    MessageRequestMode,
    MessageRequestModeTable,
)
from epochmq.wire.codes import ResponseCode

MODES = (MODE_PULL, MODE_POP)


class RequestModes:
    """Request modes by topic and group; a pair without a row has the broker's default."""

    file = "config/messageRequestMode.json"

    def __init__(self) -> None:
        self.dirty = False
        self.changes = 0
        """Counts every change of a row, so that replicas copy only a changed table."""
        self.table: dict[str, dict[str, MessageRequestMode]] = {}

    def get(self, topic: str, group: str) -> MessageRequestMode | None:
        return self.table.get(topic, {}).get(group)

    def put(self, row: MessageRequestMode) -> None:
        """Set the mode of a topic and group. Raises `Refused`: 16 for a retry topic, 1 else."""
        if names.is_retry_topic(row.topic):
            raise Refused(ResponseCode.NO_PERMISSION, "retry topic is not allowed to set mode")
        if row.mode not in MODES:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"mode is {row.mode[:64]!r}; use {' or '.join(MODES)}"
            )
        known = self.get(row.topic, row.consumer_group)
        if known is None and len(self) >= limits.REQUEST_MODES_MAX:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"this broker has {limits.REQUEST_MODES_MAX} request modes already",
            )
        self.table.setdefault(row.topic, {})[row.consumer_group] = row
        self._changed()

    def adopt(self, table: Mapping[str, Mapping[str, MessageRequestMode]]) -> None:
        """Add the rows of the master, as RocketMQ does: no row is ever removed.

        Raises `ValueError` if there are too many rows.
        """
        merged = {topic: dict(rows) for topic, rows in self.table.items()}
        for topic, rows in table.items():
            merged.setdefault(topic, {}).update(rows)
        if merged == self.table:
            return
        if sum(map(len, merged.values())) > limits.REQUEST_MODES_MAX:
            raise ValueError(f"more than {limits.REQUEST_MODES_MAX} request modes")
        self.table = merged
        self._changed()

    def __len__(self) -> int:
        return sum(map(len, self.table.values()))

    def _changed(self) -> None:
        self.changes += 1
        self.dirty = True

    def content(self) -> MessageRequestModeTable:
        """The shape of the file and of GET_ALL_MESSAGE_REQUEST_MODE's body."""
        return MessageRequestModeTable(self.table)

    def encode(self) -> bytes:
        return readable(msgspec.to_builtins(self.content()))

    def load(self, content: dict[str, Any]) -> None:
        """Take over messageRequestMode.json."""
        found = msgspec.convert(content, MessageRequestModeTable, strict=False)
        self.table = found.message_request_mode_map
