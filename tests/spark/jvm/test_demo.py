"""`epochmq demo` with its ending: Spark archives while masters die, and reports."""

import json
from pathlib import Path

from tests.admin.shell import shell_in


def test_the_archive_holds_each_flight_once(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        given = ("--messages", "6000", "--rate", "2000", "-o", "json")
        code, out, said = shell.run("demo", *given, timeout=280)
        assert code == 0, said
    report = json.loads(out)
    archive = report["archive"]
    assert (archive["duplicates"], archive["gaps"], archive["flights"]) == (0, 0, 6000)
    assert archive["rows"] == 6000 + archive["sent_again"]
    assert archive["report_rows"] > 10
    assert (tmp_path / archive["picture"]).read_bytes().startswith(b"\x89PNG")
    left = sorted(path.name for path in (tmp_path / ".epochmq-demo").iterdir())
    assert left == ["flights.png", "logs", "report.json"]
