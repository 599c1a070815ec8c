"""A master with a damaged record: its follower neither spins nor fills the log with lines."""

import logging
from pathlib import Path

import pytest
from tests.store.store_internals import flip_bit

from .brokers import LiveBroker, until


async def test_a_follower_of_a_damaged_master_backs_off(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    master, follower = LiveBroker(tmp_path, 1), LiveBroker(tmp_path, 2)
    await master.start()
    await master.lead(1)
    master.write(20)
    whole = master.end
    master.write(20)
    flip_bit(master.store, whole + 90)  # of the body
    try:
        await follower.start()
        await follower.follow(1, master)
        await until(lambda: caplog.text.count("link to the master closed") >= 5)
        await until(lambda: follower.end == whole)
        assert len(follower.troubles) == 1
        # The master finds its damage when it computes the checksum of the block.
        await until(lambda: len(master.store.damage.ranges) == 1)
        serious = [r.name for r in caplog.records if r.levelno >= logging.WARNING]
        assert serious.count("epochmq.store.damaged_ranges") == 1
        assert len(serious) == 3  # the master's, the cut, and the cause of the cut
    finally:
        await follower.stop()
        await master.stop()
