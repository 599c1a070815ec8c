"""One flipped bit in the log after a clean stop: everything behind it was cut at the next start."""

from pathlib import Path

import pytest
from tests.broker.broker_harness import send
from tests.broker.client import RawClient
from tests.broker.server.test_broker_server import running

from epochmq.store.damage import LogDamaged

COUNT = 60


@pytest.mark.parametrize("place", [b"number 0020", b"\xda\xa3\x20\xa7"], ids=["body", "magic"])
async def test_a_flipped_bit_stops_the_start_and_destroys_nothing(
    tmp_path: Path, place: bytes
) -> None:
    async with running(tmp_path, flushDiskType="SYNC_FLUSH") as broker:
        client = await RawClient.connect(broker.port)
        for number in range(COUNT):
            assert (await client.ask(send(body=b"number %04d" % number))).code == 0
        await client.close()
    log = tmp_path / "commitlog" / f"{0:020d}"
    whole = log.read_bytes()
    at = whole.index(place, 1000)
    log.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    for _ in range(2):
        with pytest.raises(LogDamaged, match="Nothing was changed") as caught:
            async with running(tmp_path, flushDiskType="SYNC_FLUSH"):
                pass
        (damage,) = caught.value.damages
        assert damage.start <= at < damage.stop
    log.write_bytes(whole)
    async with running(tmp_path, flushDiskType="SYNC_FLUSH") as broker:
        assert broker.node is not None
        assert broker.node.store.pointers.readable == len(whole.rstrip(b"\0"))
