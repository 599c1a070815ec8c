"""What the run report of an audit says."""

from tests.spark.jobs.replicas import held, make_log

from epochmq.spark.jobs.audit import run_audit
from epochmq.spark.jobs.audit_report import report_of, report_of_plan

LOG = make_log(200, seed=2)


def test_findings_are_lines_of_the_text_and_rows_of_the_json() -> None:
    pair = [
        held("a", LOG, confirmed=LOG.starts[150]),
        held("b", LOG, confirmed=0, end=LOG.starts[100], flips=(LOG.starts[5] + 90,)),
    ]
    report = report_of(run_audit(pair, block_bytes=4096))
    text = report.as_text()
    assert "verdict      2 problems" in text
    assert "\n  bytes " in text
    assert "\n  short " in text
    assert "\n  beyond " in text
    assert "differences" not in text
    json = report.as_json()
    findings = json["findings"]
    assert isinstance(findings, list)
    assert [row["kind"] for row in findings] == ["bytes", "short", "alone", "beyond"]
    assert json["bytes"] == LOG.starts[100]
    assert json["differences"][0]["suspects"] == ("b",)  # type: ignore[index]


def test_a_plan_promises_nothing() -> None:
    shapes = [held(name, LOG, confirmed=0).shape for name in "ab"]
    report = report_of_plan(shapes, None, 4096)
    assert (report.status, report.rows) == ("dry-run", 0)
    assert report.details["verdict"] == "not compared yet"


def test_without_controllers_the_report_says_so() -> None:
    pair = [held(name, LOG, confirmed=0) for name in "ab"]
    report = report_of(run_audit(pair, block_bytes=4096))
    assert report.details["verdict"] == "equal up to the end of the shortest log"
