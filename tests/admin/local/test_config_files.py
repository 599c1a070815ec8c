"""The two properties files."""

import shutil
from pathlib import Path

import pytest

from epochmq.admin.local import config_files
from epochmq.admin.local.config_files import PortBlock
from epochmq.base.errors import ConfigError
from epochmq.base.java_properties import parse_properties
from epochmq.base.options import load
from epochmq.broker.config.feature_keys import acting_warnings
from epochmq.broker.config.options import load_options
from epochmq.nameserver.options import NamesrvOptions
from epochmq.relay.options import RelayedGroup
from epochmq.relay.options import load_options as load_relay_options

PORTS = PortBlock(1876, 1911, 1909, 1912)


def test_they_are_what_the_servers_understand(tmp_path: Path) -> None:
    config_files.write_missing(tmp_path / "", PORTS)
    broker = load_options(parse_properties((tmp_path / "broker.properties").read_text()), env={})
    assert (broker.listen_port, broker.fast_listen_port, broker.ha_listen_port) == (
        1911,
        1909,
        1912,
    )
    assert broker.namesrv_addr == "127.0.0.1:1876"
    assert broker.enable_property_filter
    assert broker.store_path_root_dir == str(tmp_path / "store")
    text = (tmp_path / "namesrv.properties").read_text()
    (namesrv,) = load([NamesrvOptions], parse_properties(text))
    assert namesrv.listen_port == 1876
    assert namesrv.kv_config_path == str(tmp_path / "namesrv" / "kvConfig.json")
    assert config_files.read_ports(tmp_path) == PORTS


def test_what_the_user_wrote_stays(tmp_path: Path) -> None:
    config_files.write_missing(tmp_path, PORTS)
    path = tmp_path / "broker.properties"
    text = path.read_text().replace("brokerName=broker-a", "brokerName = mine  ")
    path.write_text(text.replace("fastListenPort=1909\n", ""))
    config_files.write_missing(tmp_path, PortBlock())
    assert config_files.read_ports(tmp_path) == PORTS
    config_files.move_ports(tmp_path, PORTS.shifted(10))
    assert config_files.read_ports(tmp_path) == PORTS.shifted(10)
    after = path.read_text()
    assert "brokerName = mine  \n" in after
    assert "namesrvAddr=127.0.0.1:1886\n" in after
    assert after.count("# ") == text.count("# ")


def test_ports_that_are_not_there(tmp_path: Path) -> None:
    assert config_files.read_ports(tmp_path) == PortBlock()
    (tmp_path / "broker.properties").write_text("listenPort=x\n")
    with pytest.raises(ConfigError, match="'listenPort' must be a whole number, not x"):
        config_files.read_ports(tmp_path)


def test_replicas_with_their_controllers(tmp_path: Path) -> None:
    ports = PortBlock(1876, 1911, 1909, 1912, replicas=3)
    config_files.write_missing(tmp_path, ports)
    assert config_files.names(tmp_path) == (
        "namesrv",
        "controller-0",
        "controller-1",
        "controller-2",
        "relay",
        "broker-0",
        "broker-1",
        "broker-2",
    )
    assert config_files.read_ports(tmp_path) == ports
    assert config_files.address_of(tmp_path, "controller-2") == "127.0.0.1:1880"
    assert config_files.address_of(tmp_path, "broker-1") == "127.0.0.1:1921"
    assert config_files.address_of(tmp_path, "relay") == "127.0.0.1:1881"
    values = parse_properties((tmp_path / "broker-2.properties").read_text())
    assert values["controllerAddr"] == "127.0.0.1:1878;127.0.0.1:1879;127.0.0.1:1880"
    assert values["enableControllerMode"] == "true"
    assert values["groupAddress"] == "127.0.0.1:1881"
    relay = load_relay_options(parse_properties((tmp_path / "relay.properties").read_text()))
    assert relay.groups() == [RelayedGroup("broker-a", 1881)]
    assert "brokerId" not in values
    moved = ports.shifted(10)
    config_files.move_ports(tmp_path, moved)
    assert config_files.read_ports(tmp_path) == moved
    assert config_files.address_of(tmp_path, "controller-0") == "127.0.0.1:1888"
    values = parse_properties((tmp_path / "broker-2.properties").read_text())
    assert values["controllerAddr"] == "127.0.0.1:1888;127.0.0.1:1889;127.0.0.1:1890"
    assert (values["listenPort"], values["haListenPort"]) == ("1941", "1942")
    assert values["groupAddress"] == config_files.address_of(tmp_path, "relay") == "127.0.0.1:1891"


def test_groups_whose_slaves_stand_in(tmp_path: Path) -> None:
    ports = PortBlock(1876, 1911, 1909, 1912, replicas=2, acting_groups=2)
    config_files.write_missing(tmp_path, ports)
    brokers = ("broker-a-0", "broker-a-1", "broker-b-0", "broker-b-1")
    assert config_files.names(tmp_path) == ("namesrv", *brokers)
    assert config_files.read_ports(tmp_path) == ports
    found = [
        load_options(parse_properties((tmp_path / f"{name}.properties").read_text()), env={})
        for name in brokers
    ]
    assert [(o.broker_name, o.broker_id, o.broker_role, o.listen_port) for o in found] == [
        ("broker-a", 0, "SYNC_MASTER", 1911),
        ("broker-a", 1, "SLAVE", 1921),
        ("broker-b", 0, "SYNC_MASTER", 1931),
        ("broker-b", 1, "SLAVE", 1941),
    ]
    assert len({o.store_path_root_dir for o in found}) == 4
    assert all(o.enable_slave_acting_master and o.slave_read_enable for o in found)
    assert not any(acting_warnings(o, is_slave=bool(o.broker_id), slave_read=True) for o in found)
    (namesrv,) = load(
        [NamesrvOptions], parse_properties((tmp_path / "namesrv.properties").read_text())
    )
    assert namesrv.support_acting_master
    config_files.move_ports(tmp_path, ports.shifted(10))
    assert config_files.read_ports(tmp_path) == ports.shifted(10)
    assert config_files.address_of(tmp_path, "broker-b-1") == "127.0.0.1:1951"


PLACES = ("storePathRootDir", "controllerStorePath", "kvConfigPath")


def places(directory: Path) -> set[str]:
    """The directories that the files name."""
    return {
        value
        for path in directory.glob("*.properties")
        for key, value in parse_properties(path.read_text()).items()
        if key in PLACES
    }


@pytest.mark.parametrize(
    "ports",
    [PORTS, PortBlock(replicas=3), PortBlock(replicas=2, acting_groups=2)],
    ids=["alone", "replicas", "acting"],
)
@pytest.mark.parametrize("new_name", ["new", "n\\1w dir\u00e9"])
@pytest.mark.parametrize("copied", [False, True])
def test_files_follow_a_move(tmp_path: Path, ports: PortBlock, new_name: str, copied: bool) -> None:
    old, new = tmp_path / "old", tmp_path / new_name
    old.mkdir()
    config_files.write_missing(old, ports)
    stays = "storePathCommitLog=/elsewhere/log\n"
    with next(old.glob("broker*")).open("a") as file:
        file.write(stays)
    before = places(old)
    for place in before - {str(old / "namesrv" / "kvConfig.json")}:
        Path(place).mkdir()
    assert config_files.follow_move(old) is None
    (shutil.copytree if copied else shutil.move)(old, new)
    assert config_files.follow_move(new) == str(old)
    assert places(new) == {place.replace(str(old), str(new)) for place in before}
    assert any(stays in path.read_text() for path in new.glob("broker*"))
    assert config_files.follow_move(new) is None


def test_data_that_was_left_behind_is_named(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    config_files.write_missing(old, PORTS)
    (old / "store").mkdir()
    for path in old.glob("*.properties"):
        path.rename(new / path.name)
    before = places(new)
    with pytest.raises(ConfigError, match=r"old/store.*new/store is not there"):
        config_files.follow_move(new)
    assert places(new) == before


def test_a_place_that_the_user_wrote_stays(tmp_path: Path) -> None:
    config_files.write_missing(tmp_path, PORTS)
    path = tmp_path / "namesrv.properties"
    path.write_text(
        path.read_text().replace("kvConfigPath=", "kvConfigPath=/x") + "kvConfigPath=/y"
    )
    assert config_files.follow_move(tmp_path) is None
