"""The key of passwords and the accounts of ACL 1.0, from files."""

from pathlib import Path

import pytest

from epochmq.auth.password_cipher import PasswordCipher, new_key
from epochmq.base.errors import ConfigError
from epochmq.broker.config.options import BrokerOptions, load_options
from epochmq.broker.server.account_files import KEY_FILE, find_cipher, read_old_accounts

INNER = '{"accessKey":"inner","secretKey":"hunter2"}'
CIPHER = PasswordCipher(b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
ACL = "accounts:\n  - accessKey: alice\n    secretKey: hunter2\n    whiteRemoteAddress: 10.*\n"


def load(**keys: str) -> BrokerOptions:
    return load_options(keys, env={})


def test_a_key_file_goes_before_the_credentials_of_the_servers(tmp_path: Path) -> None:
    derived, source = find_cipher(
        load(innerClientAuthenticationCredentials=INNER), str(tmp_path), True
    )
    assert source == "innerClientAuthenticationCredentials"
    assert not (tmp_path / KEY_FILE).exists()
    file = tmp_path / "key"
    file.write_bytes(new_key())
    file.chmod(0o600)
    options = load(innerClientAuthenticationCredentials=INNER, authKeyFile=str(file))
    of_file, source = find_cipher(options, str(tmp_path), True)
    assert str(file) in source
    assert of_file.decrypt(of_file.encrypt("p")) == "p"
    with pytest.raises(ValueError, match="key"):
        of_file.decrypt(derived.encrypt("p"))


def test_a_broker_without_users_makes_a_key_once(tmp_path: Path) -> None:
    first, _ = find_cipher(load(), str(tmp_path), True)
    second, _ = find_cipher(load(), str(tmp_path), False)
    assert second.decrypt(first.encrypt("p")) == "p"
    assert (tmp_path / KEY_FILE).stat().st_mode & 0o077 == 0
    with pytest.raises(ConfigError, match="cannot read the key file"):
        find_cipher(load(), str(tmp_path / "other"), False)
    (tmp_path / KEY_FILE).write_bytes(b"no key")
    with pytest.raises(ConfigError, match="must hold a key"):
        find_cipher(load(), str(tmp_path), False)


def test_accounts_are_found_by_the_option_or_the_home_of_rocketmq(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "plain_acl.yml").write_text(ACL)
    monkeypatch.delenv("ROCKETMQ_HOME", raising=False)
    with pytest.raises(ConfigError, match="needs plainAclPath"):
        read_old_accounts(load(), CIPHER)
    by_option = load(plainAclPath=str(tmp_path / "conf" / "plain_acl.yml"))
    (alice,) = read_old_accounts(by_option, CIPHER)
    assert CIPHER.decrypt(alice.sealed) == "hunter2"
    assert "whiteRemoteAddress of account alice is not carried over" in caplog.text
    monkeypatch.setenv("ROCKETMQ_HOME", str(tmp_path))
    (found,) = read_old_accounts(load(), CIPHER)
    assert (found.name, found.policies) == (alice.name, alice.policies)
