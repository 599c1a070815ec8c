"""A cluster that takes TLS only: registered at, administered, and used by clients."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.runtime.test_tls import CERT, KEY

from epochmq.admin.cli import cli
from epochmq.admin.shared.asking import add_options, chosen_connection
from epochmq.base.errors import NotReachable
from epochmq.broker.config.options import load_options
from epochmq.broker.server.broker_server import Broker
from epochmq.client.aio import Admin, Producer, PullConsumer
from epochmq.model.message import Message
from epochmq.model.topic import MessageQueue
from epochmq.nameserver.name_server import NameServer
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime.tls import outgoing_tls
from epochmq.spark.connection_options import ConnectionOptions

SERVER = {"tls.server.mode": "enforcing", "tls.server.certPath": CERT, "tls.server.keyPath": KEY}
CLIENT = {"tls.enable": "true", "tls.client.trustCertPath": CERT}


@pytest.fixture
async def namesrv(tmp_path: Path) -> AsyncIterator[str]:
    """The address of an enforcing name server with an enforcing broker."""
    server = NameServer(
        NamesrvOptions(
            listen_port=0,
            kv_config_path=str(tmp_path / "kv.json"),
            tls_mode="enforcing",
            tls_cert_path=CERT,
            tls_key_path=KEY,
        )
    )
    await server.start()
    try:
        address = f"127.0.0.1:{server.port}"
        store = {
            "storePathRootDir": str(tmp_path / "store"),
            "mappedFileSizeCommitLog": "1048576",
            "maxMessageSize": "65536",
        }
        where = {"brokerName": "broker-a", "listenPort": "0", "namesrvAddr": address}
        broker = Broker(load_options({**where, **store, **SERVER, **CLIENT}, env={}))
        try:
            await broker.start()
            yield address
        finally:
            await broker.stop(grace_ms=500)
    finally:
        await server.stop(grace_ms=500)


async def ran(*args: str) -> tuple[int, str]:
    """The command line in a thread, beside the servers of this loop."""
    result = await asyncio.to_thread(CliRunner().invoke, cli, args)
    return result.exit_code, result.output


async def test_clients_that_speak_tls(namesrv: str) -> None:
    tls = ssl.create_default_context(cafile=CERT)
    async with Producer(namesrv, "p", tls=tls) as producer:
        await producer.send(Message("T", b"secret"), queue=MessageQueue("T", "broker-a", 0))
    async with PullConsumer(namesrv, "g", tls=tls) as consumer:
        (queue, *_) = await consumer.queues("T")
        assert [m.body for m in (await consumer.pull(queue, 0)).messages] == [b"secret"]


async def test_a_plain_client_is_locked_out(namesrv: str) -> None:
    async with Admin(namesrv) as admin:
        with pytest.raises(NotReachable):
            await admin.route("TBW102")


async def test_the_command_line(namesrv: str) -> None:
    where = ("mqadmin", "topicList", "-n", namesrv)
    assert (await ran(*where))[0] == 3
    code, out = await ran("--tls-ca", CERT, *where)
    assert (code, "TBW102" in out) == (0, True)
    assert (await ran("--tls-insecure", *where))[0] == 0
    assert (await ran("--tls", *where))[0] == 3  # signed by itself: no authority knows it
    assert outgoing_tls.get() is None


async def test_a_file_that_cannot_be_used_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nothing")
    code, out = await ran("--tls-ca", str(tmp_path / "ca"), "topic", "list")
    assert code != 0
    assert "cannot use the authorities" in out


def test_what_travels_to_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = click.Group("root", callback=lambda **_given: None)
    add_options(command)
    found: list[ConnectionOptions | None] = []
    command.add_command(click.Command("inner", callback=lambda: found.append(chosen_connection())))
    assert CliRunner().invoke(command, ["inner"]).exit_code == 0
    assert CliRunner().invoke(command, ["--tls-insecure", "--tls-ca", CERT, "inner"]).exit_code == 0
    monkeypatch.chdir(tmp_path)
    Path("alice.credentials").write_text("")
    signing = ["--credentials", "alice.credentials", "inner"]
    assert CliRunner().invoke(command, signing).exit_code == 0
    assert found == [
        None,
        ConnectionOptions(
            tls_enable=True, tls_client_auth_server=False, tls_client_trust_cert_path=CERT
        ),
        ConnectionOptions(credentials_path=str(tmp_path / "alice.credentials")),
    ]
