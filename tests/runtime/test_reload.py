import asyncio
import logging
import os
import shutil
import signal
from pathlib import Path

import pytest
from tests.runtime.test_tls import CERT, KEY, options

from epochmq.base.errors import ConfigError
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.signals import on_reload, reload, reload_on_hangup
from epochmq.runtime.tls import server_tls
from epochmq.wire.dispatcher import Dispatcher

WAIT_MAX_S = 30


async def test_a_hangup_makes_all_calls() -> None:
    called = asyncio.Event()

    def call() -> str:
        called.set()
        return "read"

    forget = on_reload(call)
    with reload_on_hangup():
        os.kill(os.getpid(), signal.SIGHUP)
        await asyncio.wait_for(called.wait(), WAIT_MAX_S)
    forget()
    called.clear()
    reload()
    assert not called.is_set()


def test_what_cannot_be_read_keeps_the_others_from_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> str:
        raise ConfigError(["no such file"])

    forgets = [on_reload(fail), on_reload(lambda: "the second is read")]
    with caplog.at_level(logging.INFO):
        reload()
    for forget in forgets:
        forget()
    assert "nothing is changed: no such file" in caplog.text
    assert "the second is read" in caplog.text


async def test_a_server_reads_its_certificate_again(tmp_path: Path) -> None:
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(CERT, cert)
    shutil.copy(KEY, key)
    tls = server_tls(options("enforcing", tls_cert_path=str(cert), tls_key_path=str(key)))
    assert tls is not None
    server = RemotingServer()
    for _ in range(2):
        await server.start("127.0.0.1", 0, Dispatcher(), tls=tls)
    first = tls.context
    reload()
    second = tls.context
    assert second is not first
    cert.write_text("no certificate")
    reload()
    assert tls.context is second
    await server.stop(grace_ms=100)
    shutil.copy(CERT, cert)
    reload()
    assert tls.context is second
