"""The RocketMQ client: decisions in `core`, the asyncio client in `aio`, blocking calls
in `sync`.
"""
