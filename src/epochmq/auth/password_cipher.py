"""Encryption of passwords on disk and between brokers, by Fernet of the `cryptography` package.

The brokers of a cluster need the passwords themselves, because a signature is an HMAC with the
password as key. So passwords cannot be hashed; they are encrypted with a key that all brokers of a
group share: from a key file, or derived from the credentials of the servers.
"""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken

from epochmq.auth.accounts import WrongKey
from epochmq.auth.credentials import Credentials


class PasswordCipher:
    """Encrypts and decrypts passwords with one key."""

    def __init__(self, key: bytes) -> None:
        """Use `key`, 32 bytes in URL-safe Base64. Raises `ValueError` for any other text."""
        self._fernet = Fernet(key)

    def encrypt(self, password: str) -> str:
        """Return `password` encrypted, as ASCII text."""
        return self._fernet.encrypt(password.encode()).decode()

    def decrypt(self, text: str) -> str:
        """Return the password in `text`; raises `WrongKey`."""
        try:
            return self._fernet.decrypt(text.encode()).decode()
        except (InvalidToken, UnicodeError):
            raise WrongKey("a password was encrypted with another key") from None


def derived_key(inner: Credentials) -> bytes:
    """Return a key that all servers with these credentials derive."""
    context = b"epochmq accounts key 1\0" + inner.access_key.encode()
    return base64.urlsafe_b64encode(hmac.digest(inner.secret_key.encode(), context, "sha256"))


def new_key() -> bytes:
    """Return a random key, in the form that a key file has."""
    return Fernet.generate_key() + b"\n"
