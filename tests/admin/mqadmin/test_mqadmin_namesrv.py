"""Commands to name servers."""

from tests.admin.world import TOPIC, World


def test_write_permission(world: World) -> None:
    address = world.cluster.namesrv_addr
    text = f"wipe write perm of broker[broker-a] in name server[{address}] OK, "
    try:
        ran = world.mqadmin("wipeWritePerm", "-b", "broker-a")
        assert (ran.code, ran.out.startswith(text)) == (0, True)
        (route,) = world.mqadmin("topicRoute", "-t", TOPIC, "-o", "json").rows
        assert route["queueDatas"][0]["perm"] == 4
    finally:
        (row,) = world.mqadmin("addWritePerm", "-b", "broker-a", "-o", "json").rows
    assert (row["name_server"], row["broker"]) == (address, "broker-a")
    assert row["topics"] > 0


def test_a_broker_there_is_none_of(world: World) -> None:
    ran = world.mqadmin("wipeWritePerm", "-b", "broker-z")
    assert ran.lines[0].endswith(f"in name server[{world.cluster.namesrv_addr}] OK, 0")
    assert (ran.code, "there is no broker broker-z" in ran.err) == (5, True)


def test_one_of_two_name_servers_is_away(world: World) -> None:
    servers = f"127.0.0.1:1;{world.cluster.namesrv_addr}"
    ran = world.mqadmin("addWritePerm", "-b", "broker-a", "-n", servers)
    # Reading goes to whichever answers, changes to both.
    assert ran.code == 3
    assert any(line.endswith("name server[127.0.0.1:1] Failed") for line in ran.lines)


def test_options(world: World) -> None:
    lines = world.mqadmin("getNamesrvConfig").lines
    assert lines[0] == f"============{world.cluster.namesrv_addr}============"
    port = world.cluster.namesrv_port
    assert f"listenPort                                        =  {port}" in lines


def test_entries(world: World) -> None:
    ran = world.mqadmin("updateKvConfig", "-s", "ns", "-k", "a", "-v", "b")
    assert (ran.code, ran.out) == (0, "create or update kv config to namespace success.\n")
    ran = world.mqadmin("deleteKvConfig", "-s", "ns", "-k", "a")
    assert (ran.code, ran.out) == (0, "delete kv config from namespace success.\n")


def test_an_option_of_the_name_server_is_changed(world: World) -> None:
    change = ("updateNamesrvConfig", "-k", "scanNotActiveBrokerInterval", "-v")
    ran = world.mqadmin(*change, "6000")
    assert ran.lines == [
        f"update name server config success![{world.cluster.namesrv_addr}]",
        "scanNotActiveBrokerInterval : 6000",
    ]
    (row,) = world.mqadmin("getNamesrvConfig", "-o", "json").rows
    assert row["scanNotActiveBrokerInterval"] == "6000"
    assert world.mqadmin("updateNamesrvConfig", "-k", "noSuchOption", "-v", "1").code != 0
    assert world.mqadmin(*change, "5000").code == 0
