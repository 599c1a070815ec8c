"""Runtime changes outlive a restart and cannot keep a broker down."""

import pytest
from tests.broker.fake_disk import FakeDisk

from epochmq.base.errors import ConfigError
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.config.overrides import FILE, apply_overrides, read_overrides, write_overrides


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


def test_no_flipped_bit_changes_an_option_silently() -> None:
    disk = FakeDisk()
    write_overrides(disk, {"slaveReadEnable": "true", "brokerPermission": "4"})
    wanted, data = read_overrides(disk), disk.files[FILE]
    refused = 0
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        try:
            found = read_overrides(FakeDisk({FILE: bytes(flipped)}))
        except ConfigError:
            refused += 1
        else:
            assert found == wanted, f"bit {bit}"
    assert refused > 6 * len(data) // 2
    lines = data.decode().splitlines()
    edited = "\n".join(line.replace("=4", "=6") for line in lines)
    with pytest.raises(ConfigError, match="remove its line with epochmqSaved"):
        read_overrides(FakeDisk({FILE: edited.encode()}))
    kept = edited.partition("#")[0].encode()
    assert read_overrides(FakeDisk({FILE: kept}))["brokerPermission"] == "6"
