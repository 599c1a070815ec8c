import ssl
from pathlib import Path
from typing import Any

import pytest

from epochmq.base.errors import ConfigError
from epochmq.runtime.tls import OutgoingTls, TlsOptions, client_tls, server_tls

DATA = Path(__file__).parent / "testdata"
CERT, KEY = str(DATA / "server.crt"), str(DATA / "server.key")


def options(mode: str = "permissive", **changes: Any) -> TlsOptions:
    fields = {"tls_mode": mode, "tls_cert_path": CERT, "tls_key_path": KEY} | changes
    return TlsOptions(**fields)


def test_disabled_is_the_default_and_needs_no_files() -> None:
    assert server_tls(TlsOptions()) is None


@pytest.mark.parametrize(("mode", "enforced"), [("permissive", False), ("enforcing", True)])
def test_a_context_speaks_tls_1_2_or_newer(mode: str, enforced: bool) -> None:
    tls = server_tls(options(mode))
    assert tls is not None
    assert tls.enforced == enforced
    assert tls.context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert tls.context.verify_mode == ssl.CERT_NONE


@pytest.mark.parametrize(
    ("auth", "mode"), [("optional", ssl.CERT_OPTIONAL), ("require", ssl.CERT_REQUIRED)]
)
def test_clients_may_have_to_show_a_certificate(auth: str, mode: ssl.VerifyMode) -> None:
    tls = server_tls(options(tls_need_client_auth=auth, tls_trust_cert_path=CERT))
    assert tls is not None
    assert tls.context.verify_mode == mode


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tls_cert_path": ""}, "needs tls.server.certPath"),
        ({"tls_key_path": ""}, "needs tls.server.certPath"),
        ({"tls_cert_path": "/nowhere/cert"}, "/nowhere/cert"),
        ({"tls_key_path": CERT}, "cannot use the certificate"),
        ({"tls_need_client_auth": "require"}, "needs tls.server.trustCertPath"),
        (
            {"tls_need_client_auth": "require", "tls_trust_cert_path": KEY},
            "cannot use the authorities",
        ),
    ],
)
def test_files_that_cannot_be_used_are_one_clear_line(changes: dict[str, str], word: str) -> None:
    with pytest.raises(ConfigError, match=word) as error:
        server_tls(options(**changes))
    assert "\n" not in str(error.value)


def outgoing(**changes: Any) -> OutgoingTls:
    return OutgoingTls(**({"tls_enable": True} | changes))


def test_connections_are_plain_by_default() -> None:
    assert client_tls(OutgoingTls()) is None


@pytest.mark.parametrize(
    ("changes", "mode", "hostname"),
    [
        ({}, ssl.CERT_REQUIRED, True),
        ({"tls_client_trust_cert_path": CERT}, ssl.CERT_REQUIRED, False),
        (
            {"tls_client_trust_cert_path": CERT, "tls_client_check_host_name": True},
            ssl.CERT_REQUIRED,
            True,
        ),
        ({"tls_client_auth_server": False}, ssl.CERT_NONE, False),
        (
            {"tls_client_auth_server": False, "tls_client_check_host_name": True},
            ssl.CERT_NONE,
            False,
        ),
        ({"tls_client_cert_path": CERT, "tls_client_key_path": KEY}, ssl.CERT_REQUIRED, True),
    ],
)
def test_what_is_checked_of_a_server(
    changes: dict[str, Any], mode: ssl.VerifyMode, hostname: bool
) -> None:
    context = client_tls(outgoing(**changes))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (mode, hostname)
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"tls_client_trust_cert_path": "/nowhere/ca"}, "/nowhere/ca"),
        ({"tls_client_cert_path": CERT}, "need each other"),
        ({"tls_client_cert_path": CERT, "tls_client_key_path": CERT}, "cannot use the cert"),
    ],
)
def test_outgoing_files_that_cannot_be_used(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        client_tls(outgoing(**changes))
