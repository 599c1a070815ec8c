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
        serious = [r for r in caplog.records if r.levelno >= logging.WARNING]
        # The master may have found its damage by now, when it computed the block's checksum.
        ours = [r for r in serious if r.name != "epochmq.store.damaged_ranges"]
        assert len(ours) == 2  # the cut, its cause
        assert len(serious) <= 3
    finally:
        await follower.stop()
        await master.stop()
