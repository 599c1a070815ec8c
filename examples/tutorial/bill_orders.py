"""Bills orders until it is stopped; order 3 fails twice before it is billed."""

import asyncio
import os

from epochmq import PushConsumer, StoredMessage

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")


async def bill(messages: list[StoredMessage]) -> None:
    for message in messages:
        if message.keys == ("3",) and message.reconsume_times < 2:
            raise RuntimeError("the card reader does not answer")  # the broker sends it again
        print(f"billed {message.plain_body().decode()}", flush=True)


async def main() -> None:
    async with PushConsumer(NAMESRV, "billing", start="first") as consumer:
        consumer.on_message(bill)
        await consumer.subscribe("orders")
        await consumer.start()
        await asyncio.Event().wait()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        print("stopped")
