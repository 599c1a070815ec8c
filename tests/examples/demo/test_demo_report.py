"""The report: a JSON object, and a screen."""

import json

from examples.demo.report import as_text, build
from examples.demo.run import DemoOutcome
from examples.demo.verdict import DemoVerdict


def outcome(**given: int) -> DemoOutcome:
    verdict = DemoVerdict(sent=10, received=10, keys=2)
    for name, value in given.items():
        setattr(verdict, name, value)
    made = DemoOutcome(verdict, flood_count=8, flood_s=0.5, steady_count=2, steady_rate=100.0)
    made.steady_end_to_end.add(4.0)
    return made


def test_a_good_one() -> None:
    report = build(outcome(duplicates=3, duplicates_by_kill=2), 12.34)
    assert json.loads(json.dumps(report))["verdict"] == "passed"
    assert (report["seconds"], report["flood"]["rate"]) == (12.3, 16)
    text = as_text(report)
    assert "10 different ones: all" in text
    assert "3: 2 were in the killed member's hands" in text
    assert "1 by failovers and from member to member" in text
    assert "PASSED in 12.3 s" in text


def test_a_bad_one() -> None:
    bad = outcome(received=9, missing=1, out_of_order=2)
    bad.verdict.problems = ["1 messages were sent and never received"]
    report = build(bad, 1)
    assert report["verdict"] == "failed"
    text = as_text(report)
    assert "NOT ALL" in text
    assert "BROKEN" in text
    assert "never received" in text
    assert "none" in as_text(build(outcome(), 1))
