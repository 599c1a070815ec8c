"""What a container makes of a broker's file."""

import os
from pathlib import Path
from typing import Any

import pytest

from epochmq.base.errors import ConfigError, Refused
from epochmq.broker.config.container_options import ContainerOptions
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.server.container_broker import (
    checked_path,
    folders_of,
    identity_of,
    inner_options,
    ports_of,
)
from epochmq.wire.codes import ResponseCode


def options(container: ContainerOptions | None = None, **given: Any) -> BrokerOptions:
    properties = {"brokerName": "a", **{key: str(value) for key, value in given.items()}}
    return inner_options(
        properties, container or ContainerOptions(), env={"HOME": "/h"}, warn=lambda line: None
    )


def problems(**given: Any) -> str:
    with pytest.raises(ConfigError) as error:
        options(**given)
    return str(error.value)


def test_ports_follow_the_main_one() -> None:
    assert ports_of(options()) == {6888, 6886, 6889}
    found = options(listenPort=30911, haListenPort=5, fastListenPort=-1)
    assert ports_of(found) == {30911, 30912}
    assert ports_of(options(listenPort=0)) == frozenset()
    assert "must be a whole number" in problems(listenPort="x")


def test_a_master_has_the_id_0_and_a_slave_another() -> None:
    assert options(brokerId=3, brokerRole="SYNC_MASTER").broker_id == 0
    assert str(identity_of(options(brokerId=2, brokerRole="SLAVE"))) == "DefaultCluster_a_2"
    assert "'brokerId' must be more than 0" in problems(brokerRole="SLAVE")
    assert "'brokerName' is needed" in problems(brokerName="")


def test_controllers_give_ids_of_their_own() -> None:
    found = options(enableControllerMode="true", controllerAddr="h:1", brokerId=7)
    assert found.broker_id == 7


@pytest.mark.parametrize("wrong", [(1, 2, 1), (1, 1, 2), (2, 1, 2)])
def test_numbers_of_replicas(wrong: tuple[int, int, int]) -> None:
    total, in_sync, minimum = wrong
    said = problems(totalReplicas=total, inSyncReplicas=in_sync, minInSyncReplicas=minimum)
    assert "invalid replicas number" in said
    assert options(totalReplicas=2, inSyncReplicas=2).in_sync_replicas == 2


def test_the_network_is_the_containers() -> None:
    container = ContainerOptions(
        namesrv_addr="ns:1", bind_address="127.0.0.2", broker_container_ip="127.0.0.3"
    )
    given = {"namesrvAddr": "other:1", "bindAddress": "0.0.0.0", "tls.server.mode": "enforcing"}
    found = options(container, **given)
    assert (found.namesrv_addr, found.bind_address) == ("ns:1", "127.0.0.2")
    assert (found.tls_mode, found.broker_ip1) == ("disabled", "127.0.0.3")
    assert options(container, brokerIP1="127.0.0.4").broker_ip1 == "127.0.0.4"
    assert options(**given).namesrv_addr == "other:1"
    assert options(container, auditLogFile="/x").audit_log_file == ""


def test_folders(tmp_path: Path) -> None:
    root = tmp_path / "root"
    os.symlink(tmp_path / "log", tmp_path / "link")
    found = options(storePathRootDir=root, storePathCommitLog=tmp_path / "link")
    assert folders_of(found) == (str(root), str(tmp_path / "log"))
    inside = options(storePathRootDir=root, storePathCommitLog=root / "commitlog")
    assert folders_of(inside) == (str(root),)


def test_only_files_below_the_listed_directories(tmp_path: Path) -> None:
    allowed = tmp_path / "conf"
    allowed.mkdir()
    file = allowed / "b.properties"
    os.symlink("/etc/passwd", allowed / "link")
    assert checked_path(str(file), [str(allowed)]) == str(file)
    for wrong in ("/etc/passwd", str(allowed / "link"), str(allowed), "b.properties", "/a\0b",
                  f"{allowed}/../x", f"{allowed}-2/x"):  # fmt: skip
        with pytest.raises(Refused) as refused:
            checked_path(wrong, [str(allowed)])
        assert refused.value.code == ResponseCode.NO_PERMISSION
    with pytest.raises(Refused):
        checked_path(str(file), [])
    for nothing in (None, ""):
        with pytest.raises(Refused, match="configPath is missing"):
            checked_path(nothing, [str(allowed)])
