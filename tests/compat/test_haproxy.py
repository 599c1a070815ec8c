"""HAProxy with the configuration of `examples/haproxy` leads a client of RocketMQ to the master."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from .clients import JAVA_5
from .drivers.driver import Event
from .peers import admin
from .peers.group import Group
from .peers.ports import free_port
from .peers.process import Process, is_listening

CONFIG = Path(__file__).parents[2] / "examples" / "haproxy" / "haproxy.cfg"
TOPIC = "behind_haproxy"
GAP_S = 5.0
"""The time without an acknowledgement; all but about a second of it is due to a busy machine."""


def config_for(group: Group, port: int) -> str:
    """The example, with the ports of this group."""
    text = CONFIG.read_text()
    text, binds = re.subn(r"bind 127\.0\.0\.1:\d+", f"bind 127.0.0.1:{port}", text)
    assert binds == 1
    for number, broker in enumerate(group.brokers):
        line = f"server broker-{number} {broker.address} check port"
        line += f" {broker.config['healthListenPort']}"
        text, count = re.subn(rf"server broker-{number} .*", line, text)
        assert count == 1
    return text


@pytest.fixture
def haproxy(tmp_path: Path) -> Iterator[Group]:
    program = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if program is None:
        pytest.skip("haproxy is not installed: apt-get install haproxy")
    port = free_port()
    group = Group(broker_config={"minInSyncReplicas": 2}, group_address=f"127.0.0.1:{port}")
    file = tmp_path / "haproxy.cfg"
    file.write_text(config_for(group, port))
    proxy = Process("haproxy", [program, "-f", file, "-db"], tmp_path / "haproxy.log", {})
    with group:
        proxy.start()
        try:
            proxy.wait_ready(lambda: is_listening(port), 20)
            yield group
        finally:
            proxy.kill9()


def is_acked(event: Event) -> bool:
    return event["event"] == "sent" and event["status"] == "SEND_OK"


def test_sends_go_on_after_the_master_died(haproxy: Group, tmp_path: Path) -> None:
    old = haproxy.master()
    assert old is not None
    admin.create_topic(old.address, TOPIC)
    stop = tmp_path / "stop"
    with JAVA_5.build() as sender:
        pace = {"pause_ms": 20, "timeout_ms": 3_000, "poll_ms": 0}
        sender.start("send", haproxy.namesrv_addr, TOPIC, kind="sync", until=stop, **pace)
        for _ in range(40):
            sender.wait_event(is_acked, 60)
        old.process.kill9()
        killed_at = time.monotonic()
        while sender.wait_event(is_acked, 30)["at"] < killed_at + 1.0:
            pass
        stop.touch()
        times = [event["at"] for event in sender.finish().events if is_acked(event)]
    assert haproxy.master() not in (None, old)
    gap_s = max(after - at for at, after in pairwise(times))
    print(f"{gap_s:.2f} s without an acknowledgement, behind HAProxy")
    assert gap_s < GAP_S
