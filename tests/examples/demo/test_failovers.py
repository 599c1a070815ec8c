"""A master killed, and the stages of what followed."""

import time

import pytest
from tests.admin.replicated import Replicas

from examples.demo import failovers as module
from examples.demo.failovers import Failovers


async def test_a_kill_and_its_timeline(replicas: Replicas, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DOWN_S", 0.1)
    said: list[str] = []
    failovers = Failovers(replicas.cluster, said.append)
    before = await replicas.whole()
    failovers.acknowledged(time.monotonic())  # nobody waits for one
    began = time.monotonic()
    await failovers.kill()
    failovers.acknowledged(began)  # began before the kill
    failovers.acknowledged(time.monotonic())
    await failovers.wait_in_sync()
    (timeline,) = failovers.timelines
    assert timeline.old_epoch == before.master_epoch
    assert timeline.new_epoch > timeline.old_epoch
    assert timeline.new_master != timeline.master
    stages = (timeline.detected_ms, timeline.elected_ms, timeline.applied_ms, timeline.whole_ms)
    times = [at for at in stages if at is not None]
    assert len(times) == 4
    assert times == sorted(times)
    assert timeline.first_ack_ms is not None
    assert [line.split()[0] for line in said] == [
        timeline.master + ",",
        timeline.new_master,
        timeline.master,
    ]
    after = await replicas.whole()
    assert after.master_address != before.master_address
