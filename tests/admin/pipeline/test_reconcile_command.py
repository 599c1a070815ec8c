"""`epochmq pipeline reconcile`: what is refused before Spark is started."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.world import Ran
from tests.runtime.test_tls import CERT

from epochmq.admin.cli import cli


def run(*args: str) -> Ran:
    result = CliRunner().invoke(cli, ["pipeline", "reconcile", *args])
    assert result.exception is None or isinstance(result.exception, SystemExit), result
    return Ran(result.exit_code, result.stdout, result.stderr)


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (("t",), 2, "nothing to compare the topic with"),
        (("a b", "--trace"), 2, "forbidden character"),
        (("t", "--sent", "none"), 5, "there is no file none"),
        (("t", "--trace", "--group", "a b"), 2, "forbidden character"),
        (("t", "--trace", "--late", "soon"), 2, "it is not a duration"),
        (("t", "--trace", "--since", "5", "--until", "4"), 2, "not behind"),
    ],
)
def test_bad_arguments(
    args: tuple[str, ...], code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = run(*args)
    assert found.code == code, found
    assert says in found.err
    assert not list(tmp_path.iterdir())


def test_what_connections_speak_goes_to_spark() -> None:
    words = ["--tls-ca", CERT, "pipeline", "reconcile", "t", "--trace", "--dry-run", "-o", "json"]
    result = CliRunner().invoke(cli, words)
    would = Ran(result.exit_code, result.stdout, result.stderr).rows[0]["wouldCompare"]
    assert (would["tls"]["tls_enable"], would["tls"]["tls_client_trust_cert_path"]) == (True, CERT)


def test_a_dry_run_says_what_would_be_compared() -> None:
    found = run("t", "--trace", "--grace", "1m", "--dry-run", "-o", "json")
    assert found.code == 0
    would = found.rows[0]["wouldCompare"]
    assert (would["topic"], would["trace"], would["grace_ms"]) == (
        "t",
        "RMQ_SYS_TRACE_TOPIC",
        60_000,
    )
