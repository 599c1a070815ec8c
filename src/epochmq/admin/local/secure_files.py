"""What makes a local cluster secure: certificates, users, and the options that demand them.

certs/              an authority, and one certificate for all servers
admin.credentials   the first Super user, for commands
"""

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import msgspec

from epochmq.admin.shared.certificate_files import AUTHORITY, HOSTS, make_files, tls_options
from epochmq.auth.credentials import Credentials, outgoing_credentials
from epochmq.base.java_properties import format_properties
from epochmq.client.aio.client_credentials import read_credentials_file
from epochmq.runtime.private_files import create_private
from epochmq.runtime.tls import OutgoingTls, client_tls, outgoing_tls

CERTIFICATES = "certs"
CREDENTIALS = "admin.credentials"
ADMIN, INNER = "admin", "inner"
_NAME = "server"
_HEAD = "\n# Written by `epochmq dev --secure`: only signed requests over TLS are served.\n"


def is_secure(directory: Path) -> bool:
    """Return whether the cluster of `directory` checks signatures."""
    return (directory / CREDENTIALS).exists()


def environment(directory: Path) -> dict[str, str]:
    """Return the environment variables of commands for a secure cluster."""
    return {
        "EPOCHMQ_CREDENTIALS": str(directory / CREDENTIALS),
        "EPOCHMQ_TLS_CA": str(directory / CERTIFICATES / f"{AUTHORITY}.pem"),
    }


def make_secure(directory: Path, files: Mapping[Path, str]) -> str:
    """Make certificates and users, and add the options to the servers' files.

    Args:
        directory: the directory of the cluster, which never ran.
        files: the properties files, with the kind of each server.

    Returns:
        The password of the first Super user.
    """
    make_files(directory / CERTIFICATES, _NAME, HOSTS, 3_650)
    password, secret = secrets.token_urlsafe(18), secrets.token_urlsafe(32)
    options = _options(password, secret)
    for path, kind in files.items():
        path.chmod(0o600)
        own = {**tls_options(directory / CERTIFICATES, _NAME), **options[kind]}
        with path.open("a") as file:
            file.write(_HEAD + format_properties(own.items()))
    text = format_properties([("accessKey", ADMIN), ("secretKey", password)])
    create_private(str(directory / CREDENTIALS), text.encode(), "the credentials file")
    return password


def _options(password: str, secret: str) -> dict[str, dict[str, str]]:
    """Return the options of each kind of server."""
    inner = {"accessKey": INNER, "secretKey": secret}
    admin = {"username": ADMIN, "password": password}
    relay = {"innerClientAuthenticationCredentials": msgspec.json.encode(inner).decode()}
    server = {
        **relay,
        "authenticationEnabled": "true",
        "initAuthenticationUser": msgspec.json.encode(admin).decode(),
    }
    broker = {**server, "authorizationEnabled": "true", "haTlsMode": "enforcing"}
    return {"relay": relay, "namesrv": server, "controller": server, "broker": broker}


@contextmanager
def as_admin(directory: Path) -> Iterator[None]:
    """Let clients speak TLS and sign as the first Super user, if the cluster is secure."""
    if not is_secure(directory):
        yield
        return
    authority = environment(directory)["EPOCHMQ_TLS_CA"]
    tls = OutgoingTls(tls_enable=True, tls_client_trust_cert_path=authority)
    credentials: Credentials = read_credentials_file(str(directory / CREDENTIALS))
    before = outgoing_tls.set(client_tls(tls)), outgoing_credentials.set(credentials)
    try:
        yield
    finally:
        outgoing_tls.reset(before[0])
        outgoing_credentials.reset(before[1])
