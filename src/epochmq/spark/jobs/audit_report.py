"""What an audit says at its end: the run report, and a line for each finding."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from epochmq.spark.jobs.audit import Audit, plan
from epochmq.spark.jobs.audit_core import Finding, Shape
from epochmq.spark.jobs.job_report import JobReport


class AuditReport(JobReport):
    """As text every finding has a line of its own; what each block holds is in JSON only."""

    def as_text(self) -> str:
        few = {key: self.details[key] for key in self.details if key not in _LONG}
        findings = self.details["findings"]
        assert isinstance(findings, list)
        lines = [JobReport.as_text(replace(self, details=few)), *map(_line, findings)]
        return "\n".join(lines)


_LONG = ("findings", "differences")


def report_of(audit: Audit, status: str = "done") -> AuditReport:
    """The run report: bytes are the log compared (once for all replicas), rows are blocks."""
    log_bytes = sum(span.high - span.low for span in audit.spans if len(span.holders) > 1)
    details: dict[str, object] = {
        "verdict": _verdict(audit) if status == "done" else "not compared yet",
        "replicas": {shape.name: f"{shape.start}..{shape.end}" for shape in audit.shapes},
        "upTo": audit.limit,
        "confirmed": audit.confirmed,
        "blockBytes": audit.block_bytes,
        "findings": [_row(finding) for finding in audit.findings],
        "differences": [asdict(each) for each in audit.differences],
    }
    if audit.unread:
        details["unread"] = audit.unread
    return AuditReport("audit", status, audit.blocks, log_bytes, {}, audit.seconds, details)


def report_of_plan(shapes: Sequence[Shape], up_to: int | None, block_bytes: int) -> AuditReport:
    """What an audit would compare, with what the replicas' ends and epochs tell already."""
    return report_of(plan(shapes, up_to, block_bytes), "dry-run")


def _verdict(audit: Audit) -> str:
    count = len(audit.problems)
    if not count:
        where = "the confirmed offset" if audit.confirmed else "the end of the shortest log"
        return f"equal up to {where}"
    return f"{count} {'problem' if count == 1 else 'problems'}"


def _row(finding: Finding) -> dict[str, object]:
    return {**finding._asdict(), "kind": finding.kind.value, "legal": finding.kind.is_legal}


def _line(row: dict[str, object]) -> str:
    names = row["replicas"]
    assert isinstance(names, tuple)
    return f"  {row['kind']:<12} {row['low']} .. {row['high']} {','.join(names)}: {row['text']}"
