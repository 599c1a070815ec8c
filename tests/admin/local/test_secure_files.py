"""What `dev --secure` writes: options that all servers accept, and secrets for the owner only."""

from collections.abc import Callable
from pathlib import Path

import pytest

from epochmq.admin.local import config_files
from epochmq.admin.local.config_files import PortBlock
from epochmq.admin.local.secure_files import (
    CREDENTIALS,
    as_admin,
    environment,
    is_secure,
    make_secure,
)
from epochmq.auth.credentials import Credentials, outgoing_credentials
from epochmq.base.java_properties import parse_properties
from epochmq.broker.config.options import load_options as load_broker
from epochmq.client.aio.client_credentials import read_credentials_file
from epochmq.controller.options import load_options as load_controller
from epochmq.relay.options import load_options as load_relay
from epochmq.runtime.tls import outgoing_tls


@pytest.fixture
def password(tmp_path: Path) -> str:
    config_files.write_missing(tmp_path, PortBlock(replicas=3))
    found = config_files.names(tmp_path)
    kinds = {tmp_path / f"{name}.properties": config_files.kind_of(name) for name in found}
    return make_secure(tmp_path, kinds)


def test_every_server_accepts_its_file(tmp_path: Path, password: str) -> None:
    loaders: dict[str, Callable[..., object]] = {
        "broker": load_broker,
        "controller": load_controller,
        "relay": load_relay,
    }
    secrets = set()
    for name in config_files.names(tmp_path):
        path = tmp_path / f"{name}.properties"
        assert path.stat().st_mode & 0o777 == 0o600
        properties = parse_properties(path.read_text())
        secrets.add(properties["innerClientAuthenticationCredentials"])
        assert properties["tls.server.mode"] == "enforcing"
        kind = config_files.kind_of(name)
        if kind in loaders:
            loaders[kind](properties, env={})
        if kind != "relay":
            assert properties["authenticationEnabled"] == "true"
            assert password in properties["initAuthenticationUser"]
    assert len(secrets) == 1, "the servers know each other by one secret"


def test_commands_sign_as_the_first_user(tmp_path: Path, password: str) -> None:
    assert is_secure(tmp_path)
    file = environment(tmp_path)["EPOCHMQ_CREDENTIALS"]
    assert read_credentials_file(file) == Credentials("admin", password)
    with as_admin(tmp_path):
        assert outgoing_credentials.get() == Credentials("admin", password)
        assert outgoing_tls.get() is not None
    assert outgoing_credentials.get() is None
    assert outgoing_tls.get() is None


def test_an_open_cluster_is_used_as_it_is(tmp_path: Path) -> None:
    assert not is_secure(tmp_path)
    with as_admin(tmp_path):
        assert outgoing_credentials.get() is None
    assert not (tmp_path / CREDENTIALS).exists()
