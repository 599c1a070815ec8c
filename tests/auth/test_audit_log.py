"""The audit log: one line for a change or a refusal, whatever a client wrote."""

import pytest

from epochmq.auth.access_control import AccessRefused
from epochmq.auth.audit_log import ENTRIES_MAX, REPORT_MS, AuditLog


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "epochmq.audit"]


def test_changes(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    audit = AuditLog()
    audit.changed("DELETE_TOPIC_IN_BROKER", "10.0.0.1:5", "alice", ["Topic:t"], "")
    audit.changed("DELETE_TOPIC_IN_BROKER", "10.0.0.1:5", "alice\n", [], "it is a\nsystem topic")
    start = "user=alice from=10.0.0.1:5 request=DELETE_TOPIC_IN_BROKER"
    assert lines(caplog) == [
        f"{start} on=Topic:t result=accepted",
        start.replace("alice", "alice\\n") + " on=- result=refused: it is a\\nsystem topic",
    ]


def test_refusals_are_limited_for_each_address_and_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    audit = AuditLog()
    error = AccessRefused("no", "x" * 1_000, "unknown user")
    for peer, now in (
        ("10.0.0.1:5", 0),
        ("10.0.0.1:6", 1),
        ("10.0.0.2:5", 2),
        ("10.0.0.1:7", REPORT_MS),
    ):
        audit.refused("SEND_MESSAGE_V2", peer, error, now)
    said = lines(caplog)
    assert len(said) == 3
    assert said[0].endswith("result=denied: unknown user")
    assert said[2].endswith("unknown user (1 more such lines were left out)")
    assert max(map(len, said)) < 400


def test_the_latest_lines_are_kept() -> None:
    audit = AuditLog(lambda: 7)
    for number in range(ENTRIES_MAX + 5):
        audit.changed("UPDATE_BROKER_CONFIG", "10.0.0.1:5", "alice", ["Cluster:c"], "")
        assert len(audit.entries) <= ENTRIES_MAX, number
    audit.refused("SEND_MESSAGE_V2", "10.0.0.1:5", AccessRefused("no", "bob", "no policy"), 0)
    last = audit.entries[-1]
    assert (last.wall_ms, last.user, last.result) == (7, "bob", "denied: no policy")
    assert audit.entries[-2].resources == "Cluster:c"


def test_without_a_clock_nothing_is_kept() -> None:
    audit = AuditLog()
    audit.changed("UPDATE_BROKER_CONFIG", "10.0.0.1:5", "alice", [], "")
    assert not audit.entries
