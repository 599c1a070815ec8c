"""Answers usual pulls with two native calls: one reads the request, one makes the answer.

A usual pull is a PULL_MESSAGE with a JSON header for all messages of a queue, which finds some of
them (`store/pull_answers.py`). `PullHandler` executes all other pulls, and is the reference: a pull
gets the same answer from both.
"""

import ctypes
from struct import Struct
from typing import Self

from epochmq.broker.context.broker_context import BrokerContext
from epochmq.broker.requests.pull_handler import PullHandler
from epochmq.model.group import SubscriptionGroupConfig
from epochmq.model.topic import is_readable
from epochmq.native.library import Library, library
from epochmq.native.memory import NativeMemory
from epochmq.store.pull_answers import PullAnswers
from epochmq.wire.codes import RequestCode, ResponseCode
from epochmq.wire.headers.hot_replies import HotReplies
from epochmq.wire.headers.pull_headers import COMMIT_OFFSET, SUBSCRIPTION
from epochmq.wire.session import Session

PULL = int(RequestCode.PULL_MESSAGE)
FOUND = int(ResponseCode.SUCCESS)
"""Plain numbers: `IntEnum` is slower as a part of a key."""

FIELDS = Struct("=8q")
"""The numbers in `pull` of pull_request.c: opaque, queue id, offset, count, system flag, offset to
commit, version of the subscription, size of the names."""
NAMES_AT = FIELDS.size
"""Position of the names: the group, a zero byte, the topic."""
_NAMES_MAX = 511
MIRRORED = {"pull": -(-(NAMES_AT + _NAMES_MAX) // 8) * 8}
"""Structures that are also defined in C."""

NAMES_KEPT_MAX = 4096
"""Number of pairs of a group and a topic whose names are kept as text."""


class NativePulls:
    """Answers the usual pulls of one broker."""

    def __init__(
        self, native: Library, answers: PullAnswers, node: BrokerContext, pulls: PullHandler
    ) -> None:
        native.check_sizes(MIRRORED)
        self._node = node
        self._read = native.read_pull
        self._answers = answers
        self._pulls = pulls
        self._pull = NativeMemory(MIRRORED["pull"])
        self._names: dict[bytes, tuple[str, str]] = {}
        self._data = memoryview(b"")
        self._address = 0
        """Memory address of `_data`."""

    @classmethod
    def make(cls, node: BrokerContext, pulls: PullHandler) -> Self | None:
        """Return what answers the usual pulls; None without native code."""
        native = library()
        answers = node.store.pull_answers(HotReplies().pull_found_parts())
        return None if native is None or answers is None else cls(native, answers, node, pulls)

    def receive(self, session: Session, data: memoryview, start: int, size: int) -> int:
        """Answer the usual pulls at the start of `data[start:size]`; return their bytes."""
        node = self._node
        if not self._may_serve():
            return 0
        if data is not self._data:
            self._data = data
            self._address = ctypes.addressof(ctypes.c_char.from_buffer(data))
        now = node.clock.now_ms()
        at, read, place = start, self._read, self._pull.address
        room = all_room = self._pulls.copy_room
        while at < size and room > 0:
            used = read(place, self._address + at, size - at)
            if not used or not (copied := self._answer(session, now)):
                break
            at += used
            room -= copied
        self._pulls.note_copied(all_room - room)
        return at - start

    def _may_serve(self) -> bool:
        """Return whether no option, reset offset or forbidden group needs a look at each pull."""
        node = self._node
        offsets = node.offsets
        return not (
            node.options.slave_read_enable
            or not is_readable(node.options.broker_permission)
            or offsets.has_resets
            or offsets.delivered_resets
            or node.groups.forbidden_table
        )

    def _answer(self, session: Session, now: int) -> int:
        """Answer the pull that was read; return the messages' bytes, 0 if it is not a usual one."""
        view = self._pull.view
        opaque, queue_id, offset, count, flags, commit_offset, sub_version, names_size = (
            FIELDS.unpack_from(view)
        )
        key = bytes(view[NAMES_AT : NAMES_AT + names_size])
        group_name, topic_name = self._names.get(key) or self._keep_names(key)
        node = self._node
        rights = node.serving.rights  # for each pull: the lease may end between two of them
        if not rights.readable or rights.read_needs_slave_read:
            return 0
        group = node.groups.get(group_name)
        topic = node.topics.get(topic_name)
        if group is None or not group.consume_enable or topic is None:
            return 0
        if not is_readable(topic.perm) or not 0 <= queue_id < topic.read_queue_nums:
            return 0
        if not flags & SUBSCRIPTION and not self._wants_all(group, topic_name, sub_version):
            return 0
        options = node.options
        answers = self._answers
        answer = answers.make(
            topic_name,
            queue_id,
            offset,
            max(1, min(count, options.max_transfer_count_on_message_in_memory)),
            options.max_transfer_bytes_on_message_in_memory,
            0,
            topic.topic_sys_flag,
            group.group_sys_flag,
            opaque,
        )
        if answer is None:
            return 0
        stats = node.stats
        stats.pull_hits.total += 1
        stats.read(
            topic_name,
            queue_id,
            group_name,
            answers.count,
            answers.size,
            next_offset=answers.next_offset,
        )
        node.request_times.count(PULL, FOUND, now)
        session.send_one(answer)
        if flags & COMMIT_OFFSET:
            self._pulls.commit(session, group_name, topic_name, queue_id, commit_offset, now)
        return answers.size

    def _keep_names(self, key: bytes) -> tuple[str, str]:
        """Return group and topic of a pull, and keep the texts for the next one."""
        group, _, topic = key.partition(b"\0")
        if len(self._names) >= NAMES_KEPT_MAX:
            self._names.clear()
        names = self._names[key] = group.decode(), topic.decode()
        return names

    def _wants_all(self, group: SubscriptionGroupConfig, topic: str, sub_version: int) -> bool:
        """Return whether the group's registered subscription is for all messages of the topic."""
        members = self._node.consumers.group(group.group_name)
        if members is None or (members.broadcasting and not group.consume_broadcast_enable):
            return False
        wanted = members.subscriptions.get(topic)
        return (
            wanted is not None
            and wanted.is_tag
            and wanted.wants_all
            and wanted.sub_version >= sub_version
        )
