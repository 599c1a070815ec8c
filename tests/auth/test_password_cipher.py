"""Passwords are encrypted, and only the same key reads them."""

import pytest

from epochmq.auth.accounts import WrongKey
from epochmq.auth.credentials import Credentials
from epochmq.auth.password_cipher import PasswordCipher, derived_key, new_key


def test_the_same_key_reads_the_password() -> None:
    key = new_key()
    sealed = PasswordCipher(key.strip()).encrypt("hunter2 ä")
    assert "hunter2" not in sealed
    assert PasswordCipher(key.strip()).decrypt(sealed) == "hunter2 ä"


def test_another_key_and_damage_are_noticed() -> None:
    cipher = PasswordCipher(new_key().strip())
    sealed = cipher.encrypt("hunter2")
    for text in (
        PasswordCipher(new_key().strip()).encrypt("x"),
        sealed[:-8],
        "",
        "ä",
        sealed[::-1],
    ):
        with pytest.raises(WrongKey):
            cipher.decrypt(text)


def test_servers_with_the_same_credentials_have_the_same_key() -> None:
    one, same, other = (
        PasswordCipher(derived_key(Credentials("inner", secret))) for secret in ("s", "s", "t")
    )
    assert same.decrypt(one.encrypt("hunter2")) == "hunter2"
    with pytest.raises(WrongKey):
        other.decrypt(one.encrypt("hunter2"))


@pytest.mark.parametrize("key", [b"", b"short", b"x" * 44])
def test_what_is_no_key(key: bytes) -> None:
    with pytest.raises(ValueError):
        PasswordCipher(key)
