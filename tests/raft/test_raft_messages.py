"""The values that nodes keep."""

import pytest

from epochmq.raft.raft_messages import VotersAndLearners


@pytest.mark.parametrize(("voters", "quorum"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_quorums(voters: int, quorum: int) -> None:
    members = VotersAndLearners(tuple(f"n{i}" for i in range(voters)), ("x",))
    assert members.quorum == quorum
    assert members.everyone[-1] == "x"
