"""`addBroker` and `removeBroker`; `tests/admin/test_container.py` has them at work."""

import pytest
from click.testing import CliRunner

from epochmq.admin.cli import cli


@pytest.mark.parametrize("identity", ["a", "c:a", "c:a:x", "c::0", "c:a:-1"])
def test_what_is_no_identity(identity: str) -> None:
    ended = CliRunner().invoke(cli, ["mqadmin", "removeBroker", "-c", "h:1", "-b", identity])
    assert ended.exit_code == 2
    assert "clusterName:brokerName:brokerId" in ended.output
