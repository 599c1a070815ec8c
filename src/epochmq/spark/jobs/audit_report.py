"""The report of an audit: the run report, and a line for each finding; digests by Spark."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from epochmq.spark.jobs.audit import Audit, Digester, DigestRequest, plan
from epochmq.spark.jobs.audit_core import DigestBlock, Finding, Shape
from epochmq.spark.jobs.audit_sources import AuditedLogFile, StoreReplica, digests_of
from epochmq.spark.jobs.job_report import JobReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AuditReport(JobReport):
    """A report whose text has a line for each finding; the contents of blocks are in JSON only."""

    def as_text(self) -> str:
        few = {key: self.details[key] for key in self.details if key not in _LONG}
        findings = self.details["findings"]
        assert isinstance(findings, list)
        lines = [JobReport.as_text(replace(self, details=few)), *map(_line, findings)]
        return "\n".join(lines)


_LONG = ("findings", "differences")


def report_of(audit: Audit, status: str = "done") -> AuditReport:
    """Create the run report: bytes are the compared log (counted once), rows are blocks."""
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
    """Report what an audit would compare, and the findings from the replicas' ends and epochs."""
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


# Audit spark ---------------------------------------------------------------------------------
# Computes digests of store directories by Spark, with a task for each piece of a log.
#
# Every executor must see the directories under the same paths (one machine, or shared storage).


ASK_DDL = "ask bigint, low bigint, high bigint, blockBytes bigint, files string"
BLOCKS_DDL = "array<struct<offset: bigint, size: bigint, digest: string>>"


def spark_digester(spark: "SparkSession", replicas: Mapping[str, StoreReplica]) -> Digester:
    """Return a digester that runs on `spark`; answers arrive as its tasks end."""

    def digest(
        asks: Sequence[DigestRequest],
    ) -> Iterable[tuple[DigestRequest, Sequence[DigestBlock]]]:
        rows = [row_of(number, ask, replicas[ask.name].pieces) for number, ask in enumerate(asks)]
        if not rows:
            return
        from pyspark.sql import functions as f

        # A plain function: functions on the Arrow batches of a frame need pandas.
        blocks = f.udf(digest_row, BLOCKS_DDL, useArrow=False)
        columns = (f.col("low"), f.col("high"), f.col("blockBytes"), f.col("files"))
        frame = spark.createDataFrame(rows, ASK_DDL).repartition(len(rows), "ask")
        for row in frame.select("ask", blocks(*columns).alias("blocks")).toLocalIterator():
            yield asks[row["ask"]], [DigestBlock(*block) for block in row["blocks"]]

    return digest


def row_of(
    number: int, ask: DigestRequest, files: Sequence[AuditedLogFile]
) -> tuple[int, int, int, int, str]:
    """Convert a request to a row; the files that it touches are in JSON."""
    touched = [file for file in files if file.start < ask.high and ask.low < file.start + file.size]
    return number, ask.low, ask.high, ask.block_bytes, json.dumps(touched)


def digest_row(low: int, high: int, block_bytes: int, files: str) -> list[DigestBlock]:
    """Compute the blocks of one request; runs in executors."""
    pieces = [AuditedLogFile(*each) for each in json.loads(files)]
    return digests_of(pieces, low, high, block_bytes)
