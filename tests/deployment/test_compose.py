"""The compose file: its services run here as processes, and lose nothing with their master."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deployment.containers import Containers, can_mount

from epochmq import Admin, Message, Producer, PullConsumer

FOLDER = Path(__file__).parents[2] / "packaging" / "container"
SUBNET, HERE = "172.31.9.", "127.31.9."


def services() -> Mapping[str, Mapping[str, Any]]:
    found: Mapping[str, Mapping[str, Any]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return found["services"]


def address(service: Mapping[str, Any]) -> str:
    given: str = service["networks"]["cluster"]["ipv4_address"]
    return given


def test_each_service_has_an_address_and_data_of_its_own() -> None:
    found = services()
    assert len({address(service) for service in found.values()}) == len(found)
    volumes = [mount for each in found.values() for mount in each["volumes"] if "lib" in mount]
    assert len(set(volumes)) == len(found)
    declared = yaml.safe_load((FOLDER / "compose.yaml").read_text())["volumes"]
    assert {mount.partition(":")[0] for mount in volumes} == set(declared)


def test_no_service_has_rights() -> None:
    for service in services().values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]


def test_the_image_has_the_ports_and_the_user() -> None:
    text = (FOLDER / "Containerfile").read_text()
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    (exposed,) = re.findall(r"^EXPOSE (.*)$", text, re.MULTILINE)
    assert {"9876", "9878", "10911", "10912", "5557", "8082"} <= set(exposed.split())


def start(containers: Containers, name: str) -> None:
    service = services()[name]
    files = {
        f"/etc/epochmq/{path.name}": path.read_text().replace(SUBNET, HERE)
        for path in (FOLDER / "config").glob("*.properties")
    }
    args = [arg.replace(SUBNET, HERE) for arg in service["command"]]
    containers.start(name, args, address(service).replace(SUBNET, HERE), files)


async def work(containers: Containers, namesrv: str) -> None:
    async with Producer(namesrv, "p", timeout_ms=20_000) as producer:
        for number in range(100):
            await producer.send(Message("T", b"%d" % number))
            if number == 50:
                async with Admin(namesrv) as admin:
                    cluster = await admin.cluster_info()
                (group,) = cluster.broker_addr_table.values()
                master = group.broker_addrs[0].partition(":")[0]
                assert master.startswith(HERE)
                (name,) = (
                    name
                    for name, service in services().items()
                    if address(service).replace(SUBNET, HERE) == master
                )
                containers.kill(name)
    found = set()
    async with PullConsumer(namesrv, "c") as consumer:
        for queue in await consumer.queues("T"):
            offset = 0
            while offset < await consumer.max_offset(queue):
                result = await consumer.pull(queue, offset)
                offset = result.next_offset
                found |= {int(message.body) for message in result.messages}
    assert found == set(range(100))


@pytest.mark.process
@pytest.mark.timeout(300)
@pytest.mark.skipif(not can_mount(), reason="processes with addresses of their own take root")
def test_the_services_work_together(tmp_path: Path) -> None:
    with Containers(tmp_path) as containers:
        for name in services():
            start(containers, name)
        for name in services():
            if name != "dashboard":
                containers.wait_until_ok(name, "/-/ready")
        containers.wait_until_ok("dashboard", "/", 8082)
        asyncio.run(work(containers, f"{HERE}11:9876;{HERE}12:9876"))
