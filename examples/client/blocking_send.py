"""The same clients without asyncio: each call waits for its result."""

import os

from epochmq import Message
from epochmq.client.sync import Producer

NAMESRV = os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876")

with Producer(NAMESRV, "orders") as producer:
    print(producer.send(Message("hello", b"world")).msg_id)
