"""Files of certificates: those of an authority, and of the servers that it signs."""

from pathlib import Path
from typing import TYPE_CHECKING

from epochmq.base.errors import UsageError

if TYPE_CHECKING:
    from epochmq.auth.certificates import Certificate

AUTHORITY = "ca"
HOSTS = ("localhost", "127.0.0.1", "::1")


def make_files(directory: Path, name: str, hosts: tuple[str, ...], days: int) -> list[Path]:
    """Make the files of one certificate, and of the authority if there is none.

    Returns the files. Raises `UsageError` for a name or host that cannot be used, and for a
    certificate that exists already.
    """
    from epochmq.auth.certificates import make_authority, make_certificate
    from epochmq.runtime.clock import RealClock

    if not name or not all(part.isalnum() for part in name.replace(".", "-").split("-")):
        raise UsageError(f"'{name}' is not a name of files; use letters, digits, '-' and '.'")
    if name == AUTHORITY:
        raise UsageError(f"'{AUTHORITY}' is the name of the authority; choose another --name")
    for file in (f"{name}.pem", f"{name}.key"):
        if (directory / file).exists():
            raise UsageError(f"{directory / file} is there already; choose another --name")
    wall, made = RealClock().wall_ms(), []
    try:
        authority = _read(directory, AUTHORITY)
        if authority is None:
            authority = make_authority("EpochMQ test authority", wall)
            made += _write(directory, AUTHORITY, authority)
        made += _write(directory, name, make_certificate(authority, name, hosts, wall, days))
    except ValueError as error:
        raise UsageError(f"no certificate can be made: {error}") from None
    return made


def tls_options(directory: Path, name: str) -> dict[str, str]:
    """Return the options of a server that uses the certificate."""
    where = directory.absolute()
    authority = f"{where / AUTHORITY}.pem"
    certificate, key = f"{where / name}.pem", f"{where / name}.key"
    return {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": certificate,
        "tls.server.keyPath": key,
        "tls.server.trustCertPath": authority,
        "tls.enable": "true",
        "tls.client.trustCertPath": authority,
        "tls.client.certPath": certificate,
        "tls.client.keyPath": key,
    }


def _read(directory: Path, name: str) -> "Certificate | None":
    from epochmq.auth.certificates import Certificate
    from epochmq.runtime.private_files import read_private

    path = directory / f"{name}.pem"
    if not path.exists():
        return None
    key = read_private(str(directory / f"{name}.key"), "the key of the authority")
    return Certificate(path.read_bytes(), key)


def _write(directory: Path, name: str, found: "Certificate") -> list[Path]:
    from epochmq.runtime.private_files import create_private

    key, certificate = directory / f"{name}.key", directory / f"{name}.pem"
    create_private(str(key), found.key, "the key file")
    certificate.write_bytes(found.certificate)
    return [key, certificate]
