"""Options: what is accepted, every fault named at once, and what may change at runtime."""

import time
from dataclasses import FrozenInstanceError, dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.base.errors import ConfigError
from epochmq.base.options import (
    change,
    change_all,
    describe,
    load,
    option,
    parse_properties,
    render_properties,
)


@dataclass(frozen=True, kw_only=True)
class Server:
    broker_name: str = option("", "Name of the group.")
    listen_port: int = option(10911, "Port.", low=1, high=65535)
    threads: int = option(4, "Workers.", key="workerThreads", mutable=True, low=1)
    long_polling_enable: bool = option(True, "Let pulls wait.", mutable=True)
    password: str = option("", "Shared secret.", secret=True)


@dataclass(frozen=True, kw_only=True)
class Store:
    broker_name: str = option("", "Name of the group.")
    root: str = option("$HOME/store", "Where files are.", key="storePathRootDir", unit="path")
    flush_disk_type: str = option(
        "ASYNC_FLUSH", "When a put is done.", choices=("ASYNC_FLUSH", "SYNC_FLUSH"), mutable=True
    )
    ratio: int = option(75, "Fill limit.", high=95, unit="%")
    clock_skew: int = option(0, "Any number.")
    not_an_option: int = 3


def problems_of(mapping: dict[str, str], **more: object) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load((Server, Store), mapping, **more)  # type: ignore[arg-type]
    return caught.value.problems


def test_defaults_stand_when_nothing_is_said() -> None:
    server, store = load((Server, Store), {})
    assert server == Server()
    assert store == Store()


def test_values_are_typed_and_found_by_upstream_keys() -> None:
    text = "brokerName = a\nlistenPort=1\nworkerThreads: 9\nlongPollingEnable=FALSE\n"
    server, store = load((Server, Store), parse_properties(text + "flushDiskType=SYNC_FLUSH"))
    assert server == Server(broker_name="a", listen_port=1, threads=9, long_polling_enable=False)
    assert store == Store(broker_name="a", flush_disk_type="SYNC_FLUSH")


def test_surrounding_blanks_are_no_part_of_a_value() -> None:
    server, _ = load((Server, Store), {"listenPort": " 7 ", "brokerName": "b \t"})
    assert (server.listen_port, server.broker_name) == (7, "b")


@pytest.mark.parametrize(
    ("mapping", "problem"),
    [
        ({"brokrName": "a"}, "unknown option 'brokrName' (did you mean 'brokerName'?)"),
        ({"brokername": "a"}, "unknown option 'brokername' (did you mean 'brokerName'?)"),
        ({"zzz": "a"}, "unknown option 'zzz'"),
        ({"broker_name": "a"}, "unknown option 'broker_name' (did you mean 'brokerName'?)"),
        ({"notAnOption": "4"}, "unknown option 'notAnOption'"),
        ({"listenPort": "ten"}, "option 'listenPort' must be a whole number, not 'ten'"),
        ({"listenPort": ""}, "option 'listenPort' must be a whole number, not ''"),
        ({"listenPort": "1_0"}, "option 'listenPort' must be a whole number, not '1_0'"),
        ({"listenPort": "0"}, "option 'listenPort' must be between 1 and 65535, not '0'"),
        ({"workerThreads": "0"}, "option 'workerThreads' must be at least 1, not '0'"),
        ({"ratio": "96"}, "option 'ratio' must be at most 95, not '96'"),
        (
            {"clockSkew": "9999999999999999999"},
            "option 'clockSkew' must be a 64-bit number, not '9999999999999999999'",
        ),
        (
            {"longPollingEnable": "yes"},
            "option 'longPollingEnable' must be true or false, not 'yes'",
        ),
        (
            {"flushDiskType": "SYNC"},
            "option 'flushDiskType' must be one of ASYNC_FLUSH, SYNC_FLUSH, not 'SYNC'",
        ),
    ],
)
def test_a_fault_is_one_clear_line(mapping: dict[str, str], problem: str) -> None:
    assert problems_of(mapping) == [problem]


def test_all_faults_are_reported_at_once() -> None:
    assert len(problems_of({"x": "1", "y": "2", "listenPort": "a", "ratio": "100"})) == 4


def test_a_fault_in_a_shared_key_is_reported_once() -> None:
    @dataclass(frozen=True)
    class Twin:
        listen_port: int = option(1, "Port.", low=1, high=65535)

    with pytest.raises(ConfigError) as caught:
        load((Server, Twin), {"listenPort": "0"})
    assert len(caught.value.problems) == 1


def test_ignored_keys_are_accepted_with_one_warning_each() -> None:
    warnings: list[str] = []
    load((Server,), {"nettyThreads": "8"}, ignored={"nettyThreads", "x"}, warn=warnings.append)
    assert warnings == ["option 'nettyThreads' has no effect in EpochMQ and is ignored"]
    load((Server,), {"nettyThreads": "8"}, ignored=("nettyThreads",))


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("${ROCKETMQ_HOME}/s", "/mq/s"),
        ("$ROCKETMQ_HOME/s", "/mq/s"),
        ("${user.home}/s", "/me/s"),
        ("/plain", "/plain"),
    ],
)
def test_paths_have_their_variables_replaced(text: str, path: str) -> None:
    env = {"ROCKETMQ_HOME": "/mq", "HOME": "/me"}
    assert load((Store,), {"storePathRootDir": text}, env=env)[0].root == path
    assert load((Store,), {}, env=env)[0].root == "/me/store"


def test_a_variable_that_is_not_set_is_a_fault() -> None:
    assert problems_of({"storePathRootDir": "$NOPE/s"}, env={"HOME": "/me"}) == [
        "option 'storePathRootDir' uses $NOPE, which is not set in the environment, not '$NOPE/s'"
    ]


def test_only_paths_have_variables() -> None:
    assert load((Server,), {"brokerName": "$HOME"}, env={"HOME": "/me"})[0].broker_name == "$HOME"


def test_secrets_show_nowhere() -> None:
    server = Server(password="hunter2")
    assert "hunter2" not in repr(server)
    assert "hunter2" not in render_properties([server])
    assert "password=******" in render_properties([server])
    assert "password=\n" in render_properties([Server()])
    assert "password=hunter2" in render_properties([server], redact=False)


def test_instances_are_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        Server().listen_port = 3  # type: ignore[misc]


def test_change_takes_what_the_allow_list_holds() -> None:
    before = Server(broker_name="a")
    after = change(before, {"workerThreads": "9", "longPollingEnable": "false"})
    assert after == Server(broker_name="a", threads=9, long_polling_enable=False)
    assert before.threads == 4


def test_change_refuses_the_rest_and_names_everything() -> None:
    with pytest.raises(ConfigError) as caught:
        change(Server(), {"listenPort": "1", "password": "x", "workerThreds": "2"})
    assert caught.value.problems == [
        "unknown option 'workerThreds' (did you mean 'workerThreads'?)",
        "option 'listenPort' cannot be changed at runtime: set it in the file and restart",
        "option 'password' cannot be changed at runtime: set it in the file and restart",
    ]


def test_change_holds_ranges() -> None:
    with pytest.raises(ConfigError):
        change(Server(), {"workerThreads": "0"})


def test_change_over_several_instances() -> None:
    changed = change_all((Server(), Store()), {"workerThreads": "2", "flushDiskType": "SYNC_FLUSH"})
    assert changed == (Server(threads=2), Store(flush_disk_type="SYNC_FLUSH"))


def test_change_keeps_an_expanded_path() -> None:
    assert change(Store(root="/mq/s"), {"flushDiskType": "SYNC_FLUSH"}).root == "/mq/s"


@pytest.mark.parametrize("more", [{"secret": True}, {"unit": "path"}])
def test_paths_and_secrets_cannot_be_declared_mutable(more: dict[str, object]) -> None:
    with pytest.raises(TypeError):
        option("", "Doc.", mutable=True, **more)  # type: ignore[arg-type]


def test_an_option_of_another_type_is_our_mistake() -> None:
    @dataclass(frozen=True)
    class Wrong:
        ratio: float = option(0.5, "Share.")

    with pytest.raises(TypeError):
        load((Wrong,), {})


def test_rendered_properties_load_to_the_same_values() -> None:
    server = Server(broker_name=" \u4e2d=\n", listen_port=3)
    text = render_properties([server])
    assert text.splitlines() == sorted(text.splitlines())
    assert parse_properties(text)["brokerName"] == server.broker_name


@given(
    st.builds(
        Server,
        broker_name=st.text(st.characters(exclude_categories=["Cs"])).map(str.strip),
        listen_port=st.integers(1, 65535),
        threads=st.integers(1, 2**63 - 1),
        long_polling_enable=st.booleans(),
    )
)
def test_rendering_and_loading_agree(server: Server) -> None:
    assert load((Server,), parse_properties(render_properties([server]))) == (server,)


def test_describe_lists_what_documentation_needs() -> None:
    rows = {row.key: row for row in describe(Store)}
    assert list(rows) == ["brokerName", "storePathRootDir", "flushDiskType", "ratio", "clockSkew"]
    assert rows["ratio"].allowed == "at most 95"
    assert rows["ratio"].unit == "%"
    assert rows["flushDiskType"].allowed == "ASYNC_FLUSH | SYNC_FLUSH"
    assert rows["flushDiskType"].mutable
    assert {row.key: row.default for row in describe(Server)}["longPollingEnable"] == "true"


def test_thousands_of_unknown_options_are_refused_quickly() -> None:
    """Who reaches the admin port may send as many as fit: only the first get a near name."""
    start = time.process_time()
    problems = problems_of({f"lstienPrto{number}": "1" for number in range(20_000)})
    assert time.process_time() - start < 2
    assert len(problems) == 20_000
    assert "did you mean 'listenPort'?" in problems[0]
