"""Certificates with flipped bits: no damaged one is accepted, and each error is a clear one."""

import ssl
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from tests.tiers import FIRST_SEED, choose

from epochmq.auth.certificates import make_authority, make_certificate
from epochmq.base.errors import ConfigError
from epochmq.runtime.clock import RealClock
from epochmq.runtime.tls import OutgoingTls, TlsOptions, client_tls, server_tls

FILES = choose(600, 100_000)
HANDSHAKES = choose(300, 50_000)
_HANDSHAKE_RECORD, _CERTIFICATE = 22, 11


class Files:
    """An authority, and a certificate of it for both ends."""

    def __init__(self, directory: Path) -> None:
        wall = RealClock().wall_ms()
        authority = make_authority("authority", wall)
        made = make_certificate(authority, "node", ("127.0.0.1",), wall, 2)
        self.authority = directory / "ca.pem"
        self.certificate, self.key = directory / "node.pem", directory / "node.key"
        self.authority.write_bytes(authority.certificate)
        self.certificate.write_bytes(made.certificate)
        self.key.write_bytes(made.key)

    def server(self) -> TlsOptions:
        return TlsOptions(
            tls_mode="enforcing",
            tls_cert_path=str(self.certificate),
            tls_key_path=str(self.key),
            tls_need_client_auth="require",
            tls_trust_cert_path=str(self.authority),
        )

    def client(self) -> OutgoingTls:
        return OutgoingTls(
            tls_enable=True,
            tls_client_trust_cert_path=str(self.authority),
            tls_client_cert_path=str(self.certificate),
            tls_client_key_path=str(self.key),
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def flipped(data: bytes, random: Random, start: int = 0) -> bytes:
    """Return `data` with one to three flipped bits from `start` on."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 3))):
        changed[random.randrange(start, len(data))] ^= 1 << random.randrange(8)
    return bytes(changed)


def problem_of(make: Callable[[], object]) -> str:
    """Return the error of `make`; empty if there is none."""
    try:
        make()
    except ConfigError as error:
        return str(error)
    return ""


def test_a_damaged_file_is_one_clear_line(files: Files) -> None:
    """Or it has the same meaning, as another space between the lines of PEM has."""
    random, refused = Random(FIRST_SEED), 0
    contents = {path: path.read_bytes() for path in (files.authority, files.certificate, files.key)}
    for _ in range(FILES):
        path = random.choice(list(contents))
        path.write_bytes(flipped(contents[path], random))
        for make in (lambda: server_tls(files.server()), lambda: client_tls(files.client())):
            text = problem_of(make)
            refused += bool(text)
            assert not text or ("\n" not in text and str(path) in text)
        path.write_bytes(contents[path])
    assert refused > FILES // 2


class Ends:
    """A handshake in memory. With TLS 1.2 the client's certificate is not encrypted."""

    def __init__(self, files: Files) -> None:
        tls, client = server_tls(files.server()), client_tls(files.client())
        assert tls is not None
        assert client is not None
        client.maximum_version = ssl.TLSVersion.TLSv1_2
        self._to_server, self._to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.server = tls.context.wrap_bio(self._to_server, self._to_client, server_side=True)
        self._out = ssl.MemoryBIO()
        self.client = client.wrap_bio(self._to_client, self._out, server_hostname="127.0.0.1")

    def _step(self, end: ssl.SSLObject) -> bool:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def shake(self, random: Random | None) -> bool:
        """Return whether the server accepts the client, whose certificate is damaged on the way."""
        is_changed = done = False
        for _ in range(6):
            self._step(self.client)
            flight = self._out.read()
            if random is not None and flight[:1] == b"\x16" and flight[5] == _CERTIFICATE:
                size = int.from_bytes(flight[3:5], "big")
                record = flight[: 5 + size]
                flight = flipped(record, random, 12) + flight[5 + size :]
                is_changed = True
            self._to_server.write(flight)
            done = self._step(self.server)
            if done:
                break
        assert is_changed is (random is not None)
        return done


def test_a_damaged_certificate_of_a_client_is_refused(files: Files) -> None:
    random = Random(FIRST_SEED)
    assert Ends(files).shake(None)
    for _ in range(HANDSHAKES):
        with pytest.raises(ssl.SSLError):
            Ends(files).shake(random)


def test_bytes_of_a_stranger_are_no_handshake(files: Files) -> None:
    random = Random(FIRST_SEED)
    tls = server_tls(files.server())
    assert tls is not None
    for _ in range(HANDSHAKES):
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        end = tls.context.wrap_bio(incoming, outgoing, server_side=True)
        head = b"\x16\x03\x01" + random.randrange(1, 600).to_bytes(2, "big")
        incoming.write(head + b"\x01" + random.randbytes(random.randrange(600)))
        incoming.write_eof()
        with pytest.raises(ssl.SSLError):
            end.do_handshake()
