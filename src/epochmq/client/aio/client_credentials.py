"""Where clients and commands find their credentials: the environment, or a file of its owner.

Never the command line, which other users of the machine can see.
"""

from collections.abc import Mapping

from epochmq.auth.credentials import Credentials
from epochmq.base.errors import ConfigError
from epochmq.base.java_properties import parse_properties
from epochmq.runtime.private_files import read_private

ACCESS_KEY_VARIABLE = "EPOCHMQ_ACCESS_KEY"
SECRET_KEY_VARIABLE = "EPOCHMQ_SECRET_KEY"
FILE_VARIABLE = "EPOCHMQ_CREDENTIALS"


def read_credentials_file(path: str) -> Credentials:
    """Read a file with the properties `accessKey`, `secretKey` and perhaps `securityToken`.

    Raises:
        ConfigError: the file cannot be read, others than its owner can read it, or a property is
            missing.
    """
    try:
        found = parse_properties(read_private(path, "the credentials file").decode())
    except UnicodeDecodeError:
        raise ConfigError([f"the credentials file {path} is not UTF-8 text"]) from None
    name, password = found.get("accessKey", "").strip(), found.get("secretKey", "").strip()
    if not name or not password:
        raise ConfigError([f"{path} must have the properties accessKey and secretKey"])
    return Credentials(name, password, found.get("securityToken", "").strip())


def credentials_of(env: Mapping[str, str], file: str | None = None) -> Credentials | None:
    """Return the credentials of a process; None if there are none.

    Args:
        env: the environment; its two variables count if no file is given.
        file: path of a credentials file; None means the one that the environment names, if any.

    Raises:
        ConfigError: the file cannot be used, or only one of the two variables is set.
    """
    file = file or env.get(FILE_VARIABLE)
    if file:
        return read_credentials_file(file)
    name, password = env.get(ACCESS_KEY_VARIABLE, ""), env.get(SECRET_KEY_VARIABLE, "")
    if not name and not password:
        return None
    if not name or not password:
        raise ConfigError([f"{ACCESS_KEY_VARIABLE} and {SECRET_KEY_VARIABLE} need each other"])
    return Credentials(name, password)
