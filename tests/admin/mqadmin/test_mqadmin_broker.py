"""`brokerStatus`, `getBrokerConfig`, `updateBrokerConfig`."""

from tests.admin.world import World

OPTION = "maxTransferCountOnMessageInMemory"


def test_status(world: World) -> None:
    lines = world.mqadmin("brokerStatus", "-b", world.broker).lines
    assert "brokerActive                    : true" in lines
    assert lines == sorted(lines, key=lambda line: line.partition(" ")[0])
    lines = world.mqadmin("brokerStatus", "-c", "DefaultCluster").lines
    assert f"{world.broker:<24} brokerActive                    : true" in lines
    (row,) = world.mqadmin("brokerStatus", "-b", world.broker, "-o", "json").rows
    assert (row["broker"], row["brokerActive"]) == (world.broker, "true")


def test_options_are_read(world: World) -> None:
    lines = world.mqadmin("getBrokerConfig", "-b", world.broker).lines
    assert lines[0] == f"============{world.broker}============"
    assert "brokerName                                        =  broker-a" in lines
    assert lines[-1] == ""
    lines = world.mqadmin("getBrokerConfig", "-c", "DefaultCluster").lines
    assert lines[0] == f"============Master: {world.broker}============"


def test_options_are_changed(world: World) -> None:
    changed = f"update broker config success, {world.broker}"
    ran = world.mqadmin("updateBrokerConfig", "-b", world.broker, "-k", OPTION, "-v", "33")
    assert (ran.code, ran.lines) == (0, [changed])
    for extra in ([], ["-a", "true"]):
        where = ["-c", "DefaultCluster", *extra]
        assert world.mqadmin("updateBrokerConfig", *where, "-k", OPTION, "-v", "32").lines == [
            changed
        ]


def test_an_option_that_may_not_change(world: World) -> None:
    ran = world.mqadmin("updateBrokerConfig", "-b", world.broker, "-k", "brokerName", "-v", "x")
    assert (ran.code, ran.out) == (1, "")
    assert "brokerName" in ran.err


def test_old_log_files_are_deleted_on_demand(world: World) -> None:
    for where in ([], ["-b", world.broker], ["-c", "DefaultCluster"]):
        ran = world.mqadmin("deleteExpiredCommitLog", *where)
        assert (ran.code, ran.lines) == (0, ["success"])
    assert world.mqadmin("deleteExpiredCommitLog", "-b", "127.0.0.1:1").code == 3
    assert world.mqadmin("deleteExpiredCommitLog", "-c", "nowhere").code == 5


def test_where_must_be_told(world: World) -> None:
    for name in ("brokerStatus", "getBrokerConfig"):
        ran = world.mqadmin(name)
        assert (ran.code, "give one of -b BROKERADDR, -c CLUSTERNAME" in ran.err) == (2, True)


def test_nobody_there(world: World) -> None:
    assert world.mqadmin("brokerStatus", "-b", "127.0.0.1:1").code == 3
