"""`epochmq dlq` against a real broker."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.admin.world import Ran

from epochmq import Message
from epochmq.admin.cli import cli
from epochmq.client.sync import Producer
from epochmq.testing.mini_cluster import MiniCluster

GROUP = "billing"
DLQ = f"%DLQ%{GROUP}"


@pytest.fixture(scope="module")
def cluster() -> Iterator[MiniCluster]:
    with MiniCluster() as running:
        running.create_topic(DLQ, queues=1)
        with Producer(running.namesrv, "P") as producer:
            for number in range(3):
                properties = {"RETRY_TOPIC": "orders"}
                producer.send(
                    Message(DLQ, b"letter %d" % number, keys=(f"k{number}",), properties=properties)
                )
        yield running


@pytest.fixture
def run(cluster: MiniCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Run":
    monkeypatch.chdir(tmp_path)
    return Run(cluster, tmp_path)


class Run:
    """Runs `epochmq ARGS` against the cluster, with a home of its own."""

    def __init__(self, cluster: MiniCluster, home: Path) -> None:
        self.cluster = cluster
        self._env = {"NAMESRV_ADDR": cluster.namesrv, "COLUMNS": "160", "HOME": str(home)}

    def __call__(self, *args: str, answer: str | None = None) -> Ran:
        result = CliRunner(env=self._env).invoke(cli, args, input=answer)
        assert result.exception is None or isinstance(result.exception, SystemExit), result
        return Ran(result.exit_code, result.stdout, result.stderr)


def test_groups_with_letters_are_listed(run: Run) -> None:
    assert run("dlq", "list", "-o", "json").rows == [{"group": GROUP, "letters": 3}]


def test_letters_are_shown_the_newest_last(run: Run) -> None:
    rows = run("dlq", "show", GROUP, "-o", "json").rows
    assert [row["body"] for row in rows] == ["letter 0", "letter 1", "letter 2"]
    assert rows[0] | {"place": "broker-a:0:0", "topic": "orders", "keys": "k0"} == rows[0]
    ran = run("dlq", "show", GROUP, "--count", "1")
    assert "letter 2" in ran.out
    assert "letter 1" not in ran.out
    assert "3 letters; --count shows more of them" in ran.err
    (row,) = run("dlq", "show", GROUP, "broker-a:0:1", "-o", "json").rows
    assert row["body"] == "letter 1"


def test_a_letter_is_sent_once(run: Run) -> None:
    place = "broker-a:0:1"
    plan = run("dlq", "resend", GROUP, place, "--dry-run", "-o", "json")
    assert plan.rows == [{"letters": 1, "sent": 0, "already_sent": 0}]
    assert run.cluster.messages(f"%RETRY%{GROUP}") == []
    for sent, before in ((1, 0), (0, 1)):
        ran = run("dlq", "resend", GROUP, place, "-y", "-o", "json")
        assert ran.rows == [{"letters": 1, "sent": sent, "already_sent": before}], ran.err
    (message,) = run.cluster.messages(f"%RETRY%{GROUP}")
    assert message.plain_body() == b"letter 1"


def test_it_asks_before_it_sends(run: Run) -> None:
    ran = run("dlq", "resend", GROUP, "--all", "--to", "origin", answer="n\n")
    assert ran.code == 1
    assert "Send 3 dead letters of billing again, to origin?" in ran.err
    assert run.cluster.messages("orders") == []
    assert run("dlq", "resend", GROUP, "--all", "--to", "origin", answer="y\n").code == 0
    assert len(run.cluster.messages("orders")) == 3


def test_a_development_cluster_keeps_its_ledger(run: Run, tmp_path: Path) -> None:
    (tmp_path / ".epochmq").mkdir()
    assert run("dlq", "resend", GROUP, "broker-a:0:0", "-y").code == 0
    (ledger,) = (tmp_path / ".epochmq" / "ledgers").iterdir()
    assert ledger.name == "billing.jsonl"
    assert json.loads(ledger.read_text().splitlines()[0])


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("show", "nobody"), 5, "group nobody has no dead letters"),
        (("resend", GROUP), 2, "give PLACE (as `epochmq dlq show` prints it), or --all"),
        (("resend", GROUP, "--all", "x:0:0"), 2, "give PLACE"),
        (("resend", GROUP, "x"), 2, "'x' is no place of a letter; it is broker:queue:offset"),
        (("resend", GROUP, "broker-a:0:99", "-y"), 5, "has no dead letter at broker-a:0:99"),
        (("resend", "../x", "--all"), 2, ""),
        (("shwo",), 2, "did you mean 'show'"),
    ],
)
def test_mistakes_get_a_clear_error(run: Run, args: tuple[str, ...], code: int, text: str) -> None:
    ran = run("dlq", *args)
    assert text in ran.err
    assert ran.code == code, ran.err
