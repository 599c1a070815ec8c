"""Runtime changes outlive a restart and cannot keep a broker down."""

import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base.errors import ConfigError
from epochmq.broker.options import BrokerOptions
from epochmq.broker.overrides import FILE, apply_overrides, read_overrides, write_overrides


def test_changes_add_up() -> None:
    disk = FakeDisk()
    assert read_overrides(disk) == {}
    write_overrides(disk, {"slaveReadEnable": "true"})
    write_overrides(disk, {"slaveReadEnable": "false", "brokerPermission": "4"})
    assert read_overrides(disk) == {"slaveReadEnable": "false", "brokerPermission": "4"}


def test_they_lie_over_the_file() -> None:
    lines: list[str] = []
    disk = FakeDisk({FILE: b"brokerPermission=4\nlistenPort=1\nslaveReadEnable=perhaps\n"})
    options = apply_overrides(BrokerOptions(), disk, 5, lines.append)
    assert options.broker_permission == 4
    assert options.listen_port == 10911
    assert len(lines) == 2
    assert "listenPort" in lines[0]


def test_a_damaged_file_is_named() -> None:
    with pytest.raises(ConfigError, match=r"broker\.properties"):
        read_overrides(FakeDisk({FILE: b"\xff\xfe"}))
