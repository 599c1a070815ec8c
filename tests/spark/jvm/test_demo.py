"""`epochmq demo` with its ending: Spark archives while masters die, and reports."""

import json

from tests.spark.jvm.conftest import Demo


def test_the_archive_holds_each_flight_once(demo: Demo) -> None:
    code, out, said = demo.done.result()
    assert code == 0, said
    report = json.loads(out)
    archive = report["archive"]
    assert (archive["duplicates"], archive["gaps"], archive["flights"]) == (0, 0, 6000)
    assert archive["rows"] == 6000 + archive["sent_again"]
    assert archive["report_rows"] > 10
    assert (demo.place / archive["picture"]).read_bytes().startswith(b"\x89PNG")
    left = sorted(path.name for path in (demo.place / ".epochmq-demo").iterdir())
    assert left == ["flights.png", "logs", "report.json"]
