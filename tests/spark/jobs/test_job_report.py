"""Run reports: the same for people and programs."""

import json

from epochmq.spark.jobs.job_report import SHOWN_RANGES_MAX, JobReport, no_progress


def test_ranges_widen() -> None:
    report = JobReport("archive")
    report.add_range("T", "b:0", 3, 5)
    report.add_range("T", "b:0", 5, 9)
    report.add_range("T", "b:1", 0, 1)
    assert report.ranges == {"T": {"b:0": [3, 9], "b:1": [0, 1]}}


def test_text_and_json() -> None:
    report = JobReport("archive", rows=3_000, bytes=2_500_000)
    report.add_range("T", "b:0", 0, 3_000)
    report.details.update(table="delta x", batch=1_234, lost=[], share={"a": 1.5}, whole=True)
    report.finish()
    report.seconds = 2.0
    assert report.as_text().splitlines() == [
        "archive: done in 2.0 s",
        "  rows         3,000 (1,500/s)",
        "  bytes        2.5 MB",
        "  table        delta x",
        "  batch        1,234",
        "  lost         none",
        "  share        a=1.500",
        "  whole        true",
        "  ranges       1 queues",
        "    T b:0  0 .. 3,000",
    ]
    found = json.loads(json.dumps(report.as_json()))
    assert found["rowsPerSecond"] == 1500.0
    assert found["ranges"] == {"T": {"b:0": [0, 3000]}}
    assert found["batch"] == 1234


def test_many_ranges_are_cut_in_the_text() -> None:
    report = JobReport("archive")
    for number in range(SHOWN_RANGES_MAX + 3):
        report.add_range("T", f"b:{number:03}", 0, 1)
    assert report.as_text().splitlines()[-1].strip() == "and 3 more"


def test_a_dry_run_has_no_rate() -> None:
    report = JobReport("archive", rows=9).finish("dry-run")
    assert report.rate == 0
    assert report.seconds >= 0
    no_progress(1, None, "")
