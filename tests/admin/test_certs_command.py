"""`epochmq certs` in an empty folder, again, and with wrong words."""

import ssl
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from epochmq.admin.cli import cli
from epochmq.base.java_properties import parse_properties
from epochmq.runtime.tls import TlsOptions, server_tls


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, ["certs", *map(str, args)])


def test_certificates_of_one_authority(tmp_path: Path) -> None:
    folder = tmp_path / "certs"
    ran = run(folder)
    assert ran.exit_code == 0, ran.output
    found = parse_properties(ran.stdout)
    server_tls(
        TlsOptions(
            tls_mode="enforcing",
            tls_cert_path=found["tls.server.certPath"],
            tls_key_path=found["tls.server.keyPath"],
            tls_trust_cert_path=found["tls.server.trustCertPath"],
            tls_need_client_auth="require",
        )
    )
    authority = (folder / "ca.pem").read_bytes()
    assert run(folder, "--name", "broker-1", "--host", "10.0.0.1", "--host", "b1").exit_code == 0
    assert (folder / "ca.pem").read_bytes() == authority
    for key in folder.glob("*.key"):
        assert key.stat().st_mode & 0o777 == 0o600
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--name", "../x"], "is not a name of files"),
        (["--name", "ca"], "name of the authority"),
        (["--name", ""], "is not a name of files"),
        (["--days", "0"], "days"),
        (["--host", "ä b"], "no certificate can be made"),
    ],
)
def test_wrong_words(tmp_path: Path, args: list[str], said: str) -> None:
    ran = run(tmp_path, *args)
    assert (ran.exit_code, said in ran.output) == (2, True), ran.output


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    run(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    ran = run(tmp_path)
    assert (ran.exit_code, "is there already" in ran.output) == (2, True)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    (tmp_path / "ca.key").write_text("damaged")
    assert run(tmp_path, "--name", "b").exit_code == 2
