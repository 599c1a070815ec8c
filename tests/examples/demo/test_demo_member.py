"""One member as a process: it notes, says what it owns, and ends with whoever started it."""

import subprocess
import sys
from pathlib import Path

from tests.admin.shell import read_until
from tests.admin.world import World

from epochmq.client.aio import Producer
from epochmq.model.message import Message
from examples.demo.members import MODULE, decode


async def test_it_notes_what_it_is_given_and_ends_with_its_parent(
    world: World, tmp_path: Path
) -> None:
    namesrv, file = world.cluster.namesrv_addr, tmp_path / "records"
    async with Producer(namesrv, "p") as producer:
        for number in range(5):
            message = Message("D_member", b"x", keys=(f"UA-{number}",))
            await producer.send_ordered(message, "UA")
    argv = [sys.executable, "-m", MODULE, namesrv, "D_member", "D_group", "one", str(file)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        read_until(child, "owns 4")
        assert child.stdin is not None
        while len(list(decode(file.read_bytes()))) < 5:
            assert child.poll() is None
        child.stdin.close()
        assert child.wait(20) == 0
    notes = list(decode(file.read_bytes()))
    assert [(note.carrier, note.number) for note in notes] == [("UA", n) for n in range(5)]
    assert all(0 <= note.latency_ms < 60_000 for note in notes)
