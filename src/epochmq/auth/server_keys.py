"""Options of authentication that all servers of a cluster have, under RocketMQ's names."""

from dataclasses import dataclass

from epochmq.auth.access_control import AccessRules
from epochmq.auth.credentials import (
    Credentials,
    parse_initial_user,
    parse_inner_credentials,
)
from epochmq.base.options import PATH, option
from epochmq.wire.session import Signer


@dataclass(frozen=True, kw_only=True)
class InnerKeys:
    # The servers of the cluster.
    inner_client_authentication_credentials: str = option(
        "",
        "Super user of the servers themselves, the same on all servers of a cluster, as"
        ' {"accessKey":"inner","secretKey":"..."}; signs their requests to each other.',
        secret=True,
    )


@dataclass(frozen=True, kw_only=True)
class ServerAuthKeys(InnerKeys):
    # Users.
    authentication_enabled: bool = option(
        False,
        "Requests must be signed by a user. A name server and a controller know the users of"
        " innerClientAuthenticationCredentials and initAuthenticationUser, and do not ask clients"
        " for a signature.",
    )
    init_authentication_user: str = option(
        "",
        'First Super user, as {"username":"admin","password":"..."}. Brokers create it once, at'
        " their master; name servers and controllers know no other operator.",
        secret=True,
    )
    allow_plain_authentication: bool = option(
        False,
        "Accept signed requests of other machines without TLS. Whoever can listen to the network"
        " can repeat them. EpochMQ's own.",
    )
    connection_signatures_only: bool = option(
        False,
        "Refuse RocketMQ's signatures, which can be repeated. Clients of RocketMQ cannot connect"
        " then; EpochMQ's clients and servers sign for one connection. EpochMQ's own.",
    )
    audit_log_file: str = option(
        "",
        "Write the lines of the audit log to this file as well, rotated at 64 MiB, five old files"
        " kept. Changes are then logged at each logLevel. EpochMQ's own.",
        unit=PATH,
    )


def initial_user(keys: ServerAuthKeys) -> Credentials | None:
    """Return the first Super user of the options, which were checked by `problems_of`."""
    return parse_initial_user(keys.init_authentication_user)


def inner_credentials(keys: InnerKeys) -> Credentials | None:
    """Return the credentials of the servers themselves; the options were checked."""
    return parse_inner_credentials(keys.inner_client_authentication_credentials)


def inner_signer(keys: InnerKeys) -> Signer | None:
    """Return who signs the requests of a server to others; None without credentials."""
    return inner_credentials(keys)


def inner_client_is_set(keys: InnerKeys) -> bool:
    """Return whether there are credentials of the servers."""
    return bool(keys.inner_client_authentication_credentials.strip())


def server_rules(keys: ServerAuthKeys) -> AccessRules | None:
    """Return what a name server or a controller checks; None if it checks nothing."""
    if not keys.authentication_enabled:
        return None
    known = (inner_credentials(keys), initial_user(keys))
    return AccessRules(
        authenticates=True,
        authorizes=True,
        allows_plain=keys.allow_plain_authentication,
        connection_signatures_only=keys.connection_signatures_only,
        supers=tuple(user for user in known if user is not None),
    )


def inner_problems(keys: InnerKeys) -> list[str]:
    """Return the problem of the credentials of the servers, without quoting them."""
    try:
        inner_credentials(keys)
    except ValueError as error:
        return [f"option 'innerClientAuthenticationCredentials' {error}"]
    return []


def user_problems(keys: ServerAuthKeys) -> list[str]:
    """Return the problems of both users, without quoting their passwords."""
    try:
        initial_user(keys)
    except ValueError as error:
        return [*inner_problems(keys), f"option 'initAuthenticationUser' {error}"]
    return inner_problems(keys)


def server_problems(keys: ServerAuthKeys) -> list[str]:
    """Return the problems of the options of a name server or a controller."""
    found = user_problems(keys)
    if keys.authentication_enabled and not inner_client_is_set(keys):
        found.append(
            "option 'authenticationEnabled' needs innerClientAuthenticationCredentials, the same on"
            " all servers of the cluster: they sign the servers' requests to each other"
        )
    return found
