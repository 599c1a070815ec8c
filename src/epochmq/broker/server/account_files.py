"""Reads the key that encrypts passwords, and the accounts of RocketMQ's ACL 1.0, from files."""

import logging
import os

from epochmq.auth.accounts import Account, Cipher
from epochmq.auth.server_keys import inner_credentials
from epochmq.base.errors import ConfigError
from epochmq.broker.config.options import BrokerOptions
from epochmq.broker.state.acl_files import encrypted
from epochmq.runtime.private_files import create_private, read_private

log = logging.getLogger(__name__)

KEY_FILE = "config/auth.key"
"""Key file of a broker without `authKeyFile` and credentials of the servers, in its store
directory."""


def find_cipher(options: BrokerOptions, root: str, is_new: bool) -> tuple[Cipher, str]:
    """Return the cipher of passwords, and where its key is from; blocks. Raises `ConfigError`.

    A broker without users (`is_new`) and without credentials of the servers makes a key file.
    """
    # The package cryptography is in the extra `auth`.
    from epochmq.auth.password_cipher import PasswordCipher, derived_key, new_key

    inner = inner_credentials(options)
    if inner is not None and not options.auth_key_file:
        return PasswordCipher(derived_key(inner)), "innerClientAuthenticationCredentials"
    path, what = options.auth_key_file or f"{root}/{KEY_FILE}", "the key file"
    if is_new and not options.auth_key_file:
        create_private(path, new_key(), what)
    try:
        return PasswordCipher(read_private(path, what).strip()), f"{what} {path}"
    except ValueError:
        text = f"{what} {path} must hold a key, as `epochmq user new-key` makes it"
        raise ConfigError([text]) from None


def read_old_accounts(options: BrokerOptions, cipher: Cipher) -> list[Account]:
    """Return the accounts of ACL 1.0 with encrypted passwords; blocks. Raises `ConfigError`."""
    from epochmq.auth.plain_acl import read_plain_acl  # PyYAML is in the extra `auth`

    found = read_plain_acl(plain_acl_path(options))
    for note in found.notes:
        log.warning("%(note)s", {"note": note})
    return [encrypted(each, cipher) for each in found.accounts]


def plain_acl_path(options: BrokerOptions) -> str:
    """Return where the files of ACL 1.0 are; raises `ConfigError` if nothing says it."""
    path, home = options.plain_acl_path, os.environ.get("ROCKETMQ_HOME")
    if not path and not home:
        key = "aclEnable" if options.acl_enable else "migrateAuthFromV1Enabled"
        text = "needs plainAclPath, or the environment variable ROCKETMQ_HOME"
        raise ConfigError([f"option '{key}' {text}"])
    return path or f"{home}/conf"
