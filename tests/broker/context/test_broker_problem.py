"""One judgement of a broker for the health endpoint, `cluster show` and the dashboard."""

from collections.abc import Callable
from typing import cast

import pytest
from tests.broker.become import become
from tests.broker.fake_node import FakeNode
from tests.broker.requests.helpers import answer, json_of

from epochmq.broker.context.broker_problem import any_problem_of, problem_of, replica_problem_of
from epochmq.broker.serving.group_position import GroupStatus
from epochmq.broker.serving.roles import Role
from epochmq.store.damaged_ranges import DamagedRange
from epochmq.store.scrub import CheckedBlock
from epochmq.wire.codes import RequestCode


def fence(node: FakeNode) -> None:
    node.fake.fenced = "fsync failed: EIO"


def fill_disk(node: FakeNode) -> None:
    node.fake.disk_full = True


def use_up_descriptors(node: FakeNode) -> None:
    node.fake.out_of_resources = True


def damage(node: FakeNode) -> None:
    node.fake.damage.ranges.append(DamagedRange(7, 9, "checksum"))


def end_lease(node: FakeNode) -> None:
    node.serving.grant_lease(0)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (fence, "writes nothing more: fsync failed: EIO"),
        (fill_disk, "the disk is full"),
        (use_up_descriptors, "no file descriptors"),
        (damage, "a damaged range of the log waits for a repair: "),
        (end_lease, "lease is over"),
        (lambda node: become(node, Role.PRE_ONLINE), "not online yet"),
        (lambda node: become(node, Role.FENCED), "no role"),
    ],
)
def test_what_keeps_a_broker_from_its_work(harm: Callable[[FakeNode], None], words: str) -> None:
    node = FakeNode()
    assert not any_problem_of(node)
    harm(node)
    assert words in problem_of(node)
    assert problem_of(node) == any_problem_of(node)
    table = json_of(answer(node, RequestCode.GET_BROKER_RUNTIME_INFO))["table"]
    assert table["epochmqProblem"] == any_problem_of(node)


class Replica:
    """Stands for the membership of a group."""

    is_in_sync = True
    copy_problem = ""

    def figures(self) -> dict[str, str]:
        return {}


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("is_in_sync", False, "not in the sync-state set"),
        ("copy_problem", "the logs differ at 7", "nothing is copied: the logs differ at 7"),
    ],
)
def test_a_replica_that_does_not_protect_its_master(
    attribute: str, value: object, words: str
) -> None:
    node, replica = FakeNode(), Replica()
    node.join_group(cast(GroupStatus, replica), node.group_position, None)
    setattr(replica, attribute, value)
    become(node, Role.SLAVE)
    assert words in replica_problem_of(node)
    assert (problem_of(node), any_problem_of(node)) == ("", replica_problem_of(node))
    for role in (Role.MASTER, Role.LEARNER):
        become(node, role)
        assert not any_problem_of(node)


def test_a_block_that_differs_is_for_the_operator_only() -> None:
    node = FakeNode()
    node.differences.add(CheckedBlock(4096, 512, "d", 1, 1), "h:2")
    assert not problem_of(node)
    assert "a block of the log differs" in any_problem_of(node)
    assert "log offsets 4096 to 4607, compared with h:2" in any_problem_of(node)
