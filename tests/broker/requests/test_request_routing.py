"""Every request code has a row, every served row a handler; rows guard their handlers."""

import pytest
from tests.broker.become import become
from tests.broker.broker_harness import BrokerHarness
from tests.broker.fake_session import FakeSession

from epochmq.auth.audit_log import AuditLog
from epochmq.base.errors import OurBug, Refused
from epochmq.broker.requests import request_routing as dispatch
from epochmq.broker.requests.request_routing import ROWS, Access, RequestRow, bind, check_complete
from epochmq.broker.requests.request_table import REQUEST_TABLE
from epochmq.broker.serving.roles import ROLES, Role
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Reply

HOT = {
    Code.SEND_MESSAGE, Code.SEND_MESSAGE_V2, Code.SEND_BATCH_MESSAGE, Code.PULL_MESSAGE,
    Code.LITE_PULL_MESSAGE, Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2,
    Code.CONSUMER_SEND_MSG_BACK, Code.POP_MESSAGE, Code.AUTH_CHALLENGE,
}  # fmt: skip


def test_the_table_is_whole() -> None:
    assert set(ROWS) == set(Code)
    check_complete({*REQUEST_TABLE, *HOT})


def test_a_code_without_a_row_stops_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {code: row for code, row in ROWS.items() if code is not Code.HEART_BEAT}
    monkeypatch.setattr(dispatch, "ROWS", rows)
    with pytest.raises(OurBug, match="without a row: HEART_BEAT"):
        check_complete({*REQUEST_TABLE, *HOT})


def test_a_served_row_without_a_handler_stops_the_start() -> None:
    with pytest.raises(OurBug, match="do not agree: PULL_MESSAGE"):
        check_complete({*REQUEST_TABLE, *HOT} - {Code.PULL_MESSAGE})


def test_a_handler_without_a_served_row_stops_the_start() -> None:
    with pytest.raises(OurBug, match="do not agree: POP_ROLLBACK"):
        check_complete({*REQUEST_TABLE, *HOT, Code.POP_ROLLBACK})


def test_two_handlers_for_one_code_stop_the_start() -> None:
    node = BrokerHarness().node
    with pytest.raises(OurBug, match="two handlers"):
        bind(node, {Code.HEART_BEAT: lambda *_: Reply()})


def test_changes_are_for_admins() -> None:
    changing = [code for code in Code if code.name.startswith(("UPDATE_", "DELETE_", "CLEAN_"))]
    allowed = {Access.ADMIN, Access.ELSEWHERE}
    exceptions = {Code.UPDATE_CONSUMER_OFFSET}
    for code in changing:
        assert ROWS[code].access in allowed or code in exceptions, code


def test_rows_guard_ports_and_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    row = RequestRow(Access.CLIENT, 10, fast_port=False)
    monkeypatch.setitem(dispatch.ROWS, Code.HEART_BEAT, row)
    guard = dispatch._guarded(BrokerHarness().node, Code.HEART_BEAT, lambda *_: Reply(), AuditLog())
    session = FakeSession()
    command = Command(Code.HEART_BEAT, body=b"x" * 10)
    assert guard(command, session, 0) == Reply()
    with pytest.raises(Refused) as refused:
        guard(Command(Code.HEART_BEAT, body=b"x" * 11), session, 0)
    assert refused.value.code == 1
    session.fast_port = True
    with pytest.raises(Refused) as refused:
        guard(command, session, 0)
    assert refused.value.code == 3


def test_what_is_served_elsewhere_is_not_supported() -> None:
    answer = BrokerHarness().client().ask(Command(Code.GET_ROUTEINFO_BY_TOPIC, ext={"topic": "T"}))
    assert (answer.code, answer.remark) == (3, " request type 105 not supported")


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.MASTER])
def test_only_the_master_changes_what_replicas_copy(role: Role) -> None:
    node = BrokerHarness().node
    row = ROWS[Code.UPDATE_AND_CREATE_TOPIC]
    dispatch.check_role(node, row)
    become(node, role)
    with pytest.raises(Refused):
        dispatch.check_role(node, row)


def test_a_fenced_broker_tells_of_itself_and_of_nothing_else() -> None:
    node = BrokerHarness().node
    become(node, Role.FENCED)
    for code in (Code.GET_BROKER_RUNTIME_INFO, Code.NOTIFY_BROKER_ROLE_CHANGED, Code.HEART_BEAT):
        dispatch.check_role(node, ROWS[code])
    for code in (Code.GET_MAX_OFFSET, Code.QUERY_CONSUMER_OFFSET, Code.LOCK_BATCH_MQ):
        with pytest.raises(Refused) as refused:
            dispatch.check_role(node, ROWS[code])
        assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_a_master_whose_lease_is_over_is_fenced_at_that_moment() -> None:
    """S17."""
    harness = BrokerHarness()
    harness.node.serving.grant_lease(harness.clock.now + 10)
    dispatch.check_role(harness.node, ROWS[Code.GET_MAX_OFFSET])
    harness.clock.step(10)
    with pytest.raises(Refused):
        dispatch.check_role(harness.node, ROWS[Code.GET_MAX_OFFSET])


def test_past_the_lease_nothing_is_changed_that_one_broker_alone_decides() -> None:
    """ADR 0044: offsets and locks would be lost, or given twice, by an election nobody hears of."""
    harness = BrokerHarness()
    harness.node.serving.grant_lease(harness.clock.now)
    harness.node.serving.trust_set(lambda _now: True)
    for code in (Code.UPDATE_CONSUMER_OFFSET, Code.ACK_MESSAGE, Code.UPDATE_AND_CREATE_TOPIC):
        with pytest.raises(Refused, match="hears no controller") as refused:
            dispatch.check_role(harness.node, ROWS[code])
        assert refused.value.code == ResponseCode.SERVICE_NOT_AVAILABLE
    dispatch.check_role(harness.node, ROWS[Code.QUERY_CONSUMER_OFFSET])


def test_a_master_that_may_make_changes_may_do_everything() -> None:
    """The routing asks no further question then."""
    for role, rights in ROLES.items():
        if rights.changes:
            node = BrokerHarness().node
            if role is not Role.MASTER:
                become(node, role)
            for row in ROWS.values():
                dispatch.check_role(node, row)
