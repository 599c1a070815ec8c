"""Actions: what is on record when, and where the ledgers are."""

from pathlib import Path

import pytest

from epochmq.admin.dashboard.actions import Actions
from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.local.config_files import choose_anywhere
from epochmq.base.errors import NotReachable, UsageError


def test_each_group_of_each_cluster_has_its_own_ledger(tmp_path: Path) -> None:
    actions = Actions(tmp_path, read_only=False)
    paths = {actions.ledger(c, g) for c in ("a", "b") for g in ("g", "h")}
    assert len(paths) == 4
    assert all(path.is_relative_to(tmp_path) for path in paths)


@pytest.mark.parametrize("group", ["", "../x", "a/b", "a\0b", "x" * 300])
def test_a_name_that_is_no_group_leads_to_no_file(tmp_path: Path, group: str) -> None:
    with pytest.raises(UsageError):
        Actions(tmp_path, read_only=False).ledger("a", group)


async def test_a_failure_is_on_record(tmp_path: Path) -> None:
    actions = Actions(tmp_path, read_only=False)
    client = ClusterClient("a", f"127.0.0.1:{choose_anywhere().namesrv}", None)
    try:
        with pytest.raises(NotReachable):
            await actions.reset(client, "127.0.0.1", "g", "t", "first")
        with pytest.raises(NotReachable):
            await actions.resend(client, "127.0.0.1", "g", "b:0:0", "retry")
    finally:
        await client.close()
    results = [str(row["result"]) for row in actions.log.latest("a")]
    assert [result.split(":")[0] for result in results] == ["failed", "begun"] * 2
