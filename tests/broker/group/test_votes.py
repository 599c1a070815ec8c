"""Whom a member gives its vote, and that it says nothing that its disk does not have."""

import dataclasses

import pytest
from tests.broker.fake_node import FakeNode

from epochmq.base.errors import DiskFull, Refused
from epochmq.broker.consume.queue_locks import Attempt
from epochmq.broker.group.lock_ballot import attempt_of, check_same_rules, save_votes
from epochmq.model.topic import MessageQueue
from epochmq.wire.codes import ResponseCode
from epochmq.wire.headers.group_headers import LockBatchHeader, UnlockBatchHeader

ASKED = LockBatchHeader(lockAsker="1", lockNumber=7, totalReplicas=3)


def member(*, strict: bool = True, replicas: int = 3) -> FakeNode:
    node = FakeNode()
    node.options = dataclasses.replace(
        node.options, lock_in_strict_mode=strict, total_replicas=replicas
    )
    return node


def test_whose_question() -> None:
    assert attempt_of(ASKED) == Attempt("1", 7)
    assert attempt_of(LockBatchHeader()) is None
    assert attempt_of(UnlockBatchHeader(lockAsker="1")) is None


def test_members_must_count_alike() -> None:
    check_same_rules(member(), ASKED)
    with pytest.raises(Refused, match="lockInStrictMode is off"):
        check_same_rules(member(strict=False), ASKED)
    with pytest.raises(Refused, match="totalReplicas is 5 at this member, not 3"):
        check_same_rules(member(replicas=5), ASKED)


def test_saved_before_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    node = member()
    node.locks.lock("g", [MessageQueue("T", "b", 0)], "one", 0)
    told: list[Refused | None] = []

    def full(*_args: object, **_more: object) -> None:
        raise DiskFull("no space")

    with monkeypatch.context() as patch:
        patch.setattr(node.disk, "write_file", full)
        save_votes(node, told.append)
    save_votes(node, told.append)
    (refused, kept) = told
    assert refused is not None
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert kept is None
    assert not node.locks.dirty
