"""`epochmq produce --transaction`: each message in a transaction that ends as asked."""

from pathlib import Path

import pytest
from tests.admin.world import World

from epochmq.admin.messages.transactions import AlwaysSo, InTransactions, producer_for
from epochmq.client.aio import Producer, TransactionState
from epochmq.model.message import Message


@pytest.mark.parametrize(("how", "seen"), [("commit", 100), ("rollback", 0), ("unknown", 0)])
def test_what_is_seen_of_it(world: World, tmp_path: Path, how: str, seen: int) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{n}\n" for n in range(100)))
    topic = f"P_tx_{how}"
    ended = world.run("produce", topic, str(path), "--transaction", how)
    assert ended.code == 0, ended.err
    assert ended.err.startswith("sent 100 messages")
    rows = world.run("consume", topic, "--exit", "-o", "json").rows
    assert sorted(int(str(row["body"])) for row in rows) == list(range(seen))


def test_it_cannot_be_delayed(world: World) -> None:
    ended = world.run("produce", "t", "--transaction", "commit", "--delay", "1")
    assert ended.code == 2
    assert "cannot be delayed" in ended.err


def test_an_ordinary_producer_without_it() -> None:
    assert not isinstance(producer_for("127.0.0.1:9", "g", None), InTransactions)
    made: Producer = producer_for("127.0.0.1:9", "g", "rollback")
    assert isinstance(made, InTransactions)
    listener = made.listener
    assert isinstance(listener, AlwaysSo)
    assert listener.execute_local(Message("t", b""), None) is TransactionState.ROLLBACK
