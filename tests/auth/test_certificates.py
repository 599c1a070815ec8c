"""Certificates of a test cluster: a TLS client and a TLS server accept them, and only them."""

import ssl
from pathlib import Path

import pytest

from epochmq.auth.certificates import Certificate, make_authority, make_certificate
from epochmq.base.errors import NotReachable
from epochmq.runtime.bounds import Bounds
from epochmq.runtime.clock import RealClock
from epochmq.runtime.peers import Peers
from epochmq.runtime.server import RemotingServer
from epochmq.runtime.tls import OutgoingTls, TlsOptions, client_tls, server_tls
from epochmq.wire.command import Reply, request
from epochmq.wire.dispatcher import Dispatcher

WALL = RealClock().wall_ms()
YEAR_MS = 365 * 86_400_000


class Files:
    """A server's certificate and its authority on disk."""

    def __init__(self, folder: Path, hosts: list[str], *, wall: int = WALL) -> None:
        folder.mkdir()
        authority = make_authority("test", wall)
        own = make_certificate(authority, "server", hosts, wall, 365)
        self.paths = {}
        for name, data in (
            ("ca", authority.certificate),
            ("cert", own.certificate),
            ("key", own.key),
        ):
            self.paths[name] = str(folder / name)
            (folder / name).write_bytes(data)

    def server(self) -> TlsOptions:
        return TlsOptions(
            tls_mode="enforcing",
            tls_cert_path=self.paths["cert"],
            tls_key_path=self.paths["key"],
            tls_trust_cert_path=self.paths["ca"],
            tls_need_client_auth="require",
        )

    def client(self, trusted: "Files | None" = None) -> ssl.SSLContext | None:
        return client_tls(
            OutgoingTls(
                tls_enable=True,
                tls_client_trust_cert_path=(trusted or self).paths["ca"],
                tls_client_check_host_name=True,
                tls_client_cert_path=self.paths["cert"],
                tls_client_key_path=self.paths["key"],
            )
        )


async def ask(server: Files, tls: ssl.SSLContext | None) -> int:
    """Return the code of an answer over TLS; raises `NotReachable`."""
    remoting = RemotingServer(Bounds())
    port = await remoting.start(
        "127.0.0.1", 0, Dispatcher({34: lambda *_: Reply()}), tls=server_tls(server.server())
    )
    peers = Peers(tls=tls)
    try:
        answer = await peers.invoke(f"127.0.0.1:{port}", request(34), 3_000)
        return answer.code
    finally:
        await peers.close()
        await remoting.stop()


async def test_both_sides_accept_a_certificate_for_the_address(tmp_path: Path) -> None:
    files = Files(tmp_path / "a", ["localhost", "127.0.0.1", "::1"])
    assert await ask(files, files.client()) == 0


@pytest.mark.parametrize("case", ["another authority", "another host", "no longer valid"])
async def test_other_certificates_are_refused(tmp_path: Path, case: str) -> None:
    hosts = ["broker.example"] if case == "another host" else ["127.0.0.1"]
    wall = WALL - 2 * YEAR_MS if case == "no longer valid" else WALL
    files = Files(tmp_path / "a", hosts, wall=wall)
    other = Files(tmp_path / "b", ["127.0.0.1"]) if case == "another authority" else None
    with pytest.raises(NotReachable):
        await ask(files, files.client(other))


def test_an_authority_that_cannot_be_used() -> None:
    authority = make_authority("test", WALL)
    for damaged in (Certificate(b"", authority.key), Certificate(authority.certificate, b"x")):
        with pytest.raises(ValueError):
            make_certificate(damaged, "server", ["localhost"], WALL, 1)
    assert "PRIVATE" not in repr(authority)
