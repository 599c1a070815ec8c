"""Tables larger than a frame: any client can create thousands of groups, each with a retry topic.

A replica must copy them, or the group has no second complete member; and the broker must register
them, or no client finds it after a restart.
"""

import json
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from tests.attack.server import Line, Server, frame, running_broker, running_name_server
from tests.compat.peers.ports import free_port
from tests.compat.peers.process import wait_until

from epochmq.base.limits import FRAME_BYTES_MAX
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command
from epochmq.wire.table_parts import TableParts, decode_object

pytestmark = pytest.mark.process

GROUPS = 33_000
GROUPS_IN_HEARTBEAT = 1_000
COPIED_S = 60.0


def group_name(number: int) -> str:
    return f"group_{number}_".ljust(120, "x")


def create_groups(broker: Server) -> None:
    for start in range(0, GROUPS, GROUPS_IN_HEARTBEAT):
        groups = [{"groupName": group_name(n)} for n in range(start, start + GROUPS_IN_HEARTBEAT)]
        body = json.dumps({"clientID": f"c{start}", "consumerDataSet": groups}).encode()
        with broker.line() as line:
            line.sock.sendall(frame(Code.HEART_BEAT, {}, body, opaque=-7))
            while line.read_answer().opaque != -7:
                pass  # the broker tells the client of its groups


def fetch(line: Line, code: Code) -> tuple[dict[str, object], int]:
    """A table of a broker, and the size of its largest part."""
    parts = TableParts(decode_object)
    sizes = []
    while True:
        answer = line.call(code, parts.question())
        assert answer.code == 0, answer.remark
        sizes.append(len(answer.body))
        if parts.add(Command(0, ext=answer.ext, body=answer.body)):
            assert parts.content is not None
            return parts.content, max(sizes)


def has_route(name_server: Server, topic: str) -> bool:
    with name_server.line() as line:
        return line.call(Code.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}).code == 0


def test_tables_that_do_not_fit_into_a_frame(tmp_path: Path) -> None:
    last = f"%RETRY%{group_name(GROUPS - 1)}"
    names_port, port, ha_port = free_port(), free_port(), free_port()
    common = {"namesrvAddr": f"127.0.0.1:{names_port}", "brokerName": "large"}
    master = {
        **common, "brokerId": 0, "brokerRole": "ASYNC_MASTER", "listenPort": port,
        "haListenPort": ha_port,
    }  # fmt: skip
    slave = {**common, "brokerId": 1, "brokerRole": "SLAVE"}

    def name_server() -> AbstractContextManager[Server]:
        return running_name_server(tmp_path / "names", {"listenPort": names_port})

    with running_broker(tmp_path / "slave", slave) as replica:
        with name_server() as names, running_broker(tmp_path / "master", master) as broker:
            with broker.check_turns():
                create_groups(broker)
                wait_until(lambda: has_route(names, last), COPIED_S, "the route of a topic")
            check_copied(broker, replica)
            assert broker.stop() == 0
        # New processes know nothing: they get whole tables.
        with name_server() as names, running_broker(tmp_path / "master", master) as broker:
            wait_until(lambda: has_route(names, last), COPIED_S, "the route of a topic")
            check_copied(broker, replica)
            with broker.line() as line, replica.check_turns(50):
                delete = {"groupName": group_name(5), "cleanOffset": "true"}
                assert line.call(Code.DELETE_SUBSCRIPTIONGROUP, delete).code == 0
                check_copied(broker, replica)


def check_copied(broker: Server, replica: Server) -> None:
    """The replica gets the tables of the master, in answers that are small."""
    with broker.line() as line:
        groups, largest = fetch(line, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
        topics, _ = fetch(line, Code.GET_ALL_TOPIC_CONFIG)
    assert largest < 2 * 1024 * 1024
    assert len(json.dumps(groups)) > FRAME_BYTES_MAX

    def is_copied() -> bool:
        with replica.line() as line:
            copied = fetch(line, Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)[0]
            topics_copied = fetch(line, Code.GET_ALL_TOPIC_CONFIG)[0]
        names = copied["subscriptionGroupTable"], topics_copied["topicConfigTable"]
        return names == (groups["subscriptionGroupTable"], topics["topicConfigTable"])

    wait_until(is_copied, COPIED_S, "the replica has the tables")
