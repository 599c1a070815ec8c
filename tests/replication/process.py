"""One replica as a process of its own: told what to do by lines, tells what happened by lines.

python -m tests.replication.process ROOT NUMBER PORT
"""

import asyncio
import json
import sys
from pathlib import Path

from .brokers import LiveBroker


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


class Program:
    """Commands: lead EPOCH MEMBERS, follow EPOCH MASTER PORT, load ON, state, stop."""

    def __init__(self, broker: LiveBroker) -> None:
        self.broker = broker
        self.loading = False
        self.task: asyncio.Task[None] | None = None

    async def load(self) -> None:
        """Append, tell what is acknowledged, append again."""
        broker = self.broker
        while self.loading:
            broker.write(20)
            end = broker.end
            status = await broker.acked(10_000)
            say(status=status.name, end=end)
            await asyncio.sleep(0.001)

    async def run(self, line: str) -> bool:
        broker = self.broker
        verb, *words = line.split()
        if verb == "lead":
            await broker.lead(int(words[0]), *map(int, words[1].split(",")))
        elif verb == "follow":
            await broker.replication.become_follower(
                int(words[0]), int(words[1]), f"127.0.0.1:{words[2]}", False
            )
        elif verb == "load":
            self.loading = words[0] == "on"
            if self.loading:
                self.task = asyncio.create_task(self.load())
            elif self.task is not None:
                await self.task
        say(
            did=verb,
            end=broker.end,
            confirmed=broker.store.pointers.confirmed,
            set=broker.set_epoch,
            members=sorted(broker.proposals[-1].members) if broker.proposals else [],
            troubles=broker.troubles,
        )
        return verb != "stop"


async def main() -> None:
    root, number, port = sys.argv[1:]
    broker = await LiveBroker(Path(root), int(number)).start(int(port))
    say(port=broker.port)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    program = Program(broker)
    while (line := await reader.readline()) and await program.run(line.decode()):
        pass
    await broker.stop()


if __name__ == "__main__":
    asyncio.run(main())
