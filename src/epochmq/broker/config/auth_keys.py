"""Options of users and policies, under RocketMQ's names (ACL 2.0, RIP-68).

RocketMQ loads classes by name. Here the usual names of its classes stand for the built-in parts,
and other names are refused.
"""

from dataclasses import dataclass

from epochmq.auth.access_control import AccessRules
from epochmq.auth.server_keys import (
    ServerAuthKeys,
    inner_client_is_set,
    inner_credentials,
    user_problems,
)
from epochmq.base.options import PATH, option

_AUTHENTICATION = "org.apache.rocketmq.auth.authentication."
_AUTHORIZATION = "org.apache.rocketmq.auth.authorization."
_DAY_S = 86_400


def _classes(package: str, *names: str) -> tuple[str, ...]:
    return ("", *(package + name for name in names))


def _unused(default: int, what: str) -> int:
    """An option of RocketMQ's caches, which EpochMQ does not have."""
    found: int = option(default, f"Without effect: {what}", low=0, high=10_000_000)
    return found


_NO_USER_CACHE = "users are in memory, and a change counts from the next request on."
_NO_RESULT_CACHE = "each request is checked."


@dataclass(frozen=True, kw_only=True)
class AuthKeys(ServerAuthKeys):
    # Policies.
    authorization_enabled: bool = option(
        False, "Normal users may do only what policies allow. Needs authenticationEnabled."
    )
    auth_key_file: str = option(
        "",
        "File with the key that encrypts passwords on disk, as `epochmq user new-key` makes it, the"
        " same on all brokers of a group. Empty: a key derived from"
        " innerClientAuthenticationCredentials; without them config/auth.key in the store"
        " directory, made at the first start. EpochMQ's own.",
        unit=PATH,
    )
    authentication_whitelist: str = option(
        "",
        "Request codes, separated by commas, that need no signature. Nobody has permissions then:"
        " with authorizationEnabled put them into authorizationWhitelist as well.",
    )
    authorization_whitelist: str = option(
        "", "Request codes, separated by commas, that need no policy."
    )
    acl_enable: bool = option(
        False,
        "ACL 1.0: users and policies are the accounts of the files of plainAclPath, also when the"
        " files change. Includes authenticationEnabled and authorizationEnabled; users and policies"
        " cannot be changed in another way.",
    )
    migrate_auth_from_v1_enabled: bool = option(
        False,
        "Create users and policies from the accounts of RocketMQ's ACL 1.0, each account once. The"
        " master does it, and replicas copy its users.",
    )
    plain_acl_path: str = option(
        "",
        "With aclEnable or migrateAuthFromV1Enabled: plain_acl.yml, or RocketMQ's directory conf"
        " with it and with acl/*.yml. Empty: conf in the directory of the variable ROCKETMQ_HOME."
        " EpochMQ's own.",
        unit=PATH,
    )

    # Classes, of which only RocketMQ's own are known.
    authentication_provider: str = option(
        "",
        "RocketMQ's class; empty is the same.",
        choices=_classes(_AUTHENTICATION, "provider.DefaultAuthenticationProvider"),
    )
    authentication_metadata_provider: str = option(
        "",
        "RocketMQ's class; empty is the same.",
        choices=_classes(_AUTHENTICATION, "provider.LocalAuthenticationMetadataProvider"),
    )
    authentication_strategy: str = option(
        "",
        "RocketMQ's classes; both check each request.",
        choices=_classes(
            _AUTHENTICATION,
            "strategy.StatelessAuthenticationStrategy",
            "strategy.StatefulAuthenticationStrategy",
        ),
    )
    authorization_provider: str = option(
        "",
        "RocketMQ's class; empty is the same.",
        choices=_classes(_AUTHORIZATION, "provider.DefaultAuthorizationProvider"),
    )
    authorization_metadata_provider: str = option(
        "",
        "RocketMQ's class; empty is the same.",
        choices=_classes(_AUTHORIZATION, "provider.LocalAuthorizationMetadataProvider"),
    )
    authorization_strategy: str = option(
        "",
        "RocketMQ's classes; both check each request.",
        choices=_classes(
            _AUTHORIZATION,
            "strategy.StatelessAuthorizationStrategy",
            "strategy.StatefulAuthorizationStrategy",
        ),
    )

    # RocketMQ's caches.
    user_cache_max_num: int = _unused(1000, _NO_USER_CACHE)
    user_cache_expired_second: int = _unused(600, _NO_USER_CACHE)
    user_cache_refresh_second: int = _unused(60, _NO_USER_CACHE)
    acl_cache_max_num: int = _unused(1000, _NO_USER_CACHE)
    acl_cache_expired_second: int = _unused(600, _NO_USER_CACHE)
    acl_cache_refresh_second: int = _unused(60, _NO_USER_CACHE)
    stateful_authentication_cache_max_num: int = _unused(10_000, _NO_RESULT_CACHE)
    stateful_authentication_cache_expired_second: int = _unused(60, _NO_RESULT_CACHE)
    stateful_authorization_cache_max_num: int = _unused(10_000, _NO_RESULT_CACHE)
    stateful_authorization_cache_expired_second: int = _unused(60, _NO_RESULT_CACHE)

    @property
    def authenticates(self) -> bool:
        """Whether requests must be signed by a user."""
        return self.authentication_enabled or self.acl_enable

    @property
    def authorizes(self) -> bool:
        """Whether policies say what a user may do."""
        return self.authorization_enabled or self.acl_enable


def stores_users(keys: AuthKeys) -> bool:
    """Return whether the broker has a key for passwords, so that users can be created."""
    return bool(keys.authenticates or keys.auth_key_file.strip() or inner_client_is_set(keys))


def access_rules(keys: AuthKeys) -> AccessRules | None:
    """Return what is checked; None if nothing is. The options were checked by `auth_problems`."""
    if not keys.authenticates:
        return None
    inner = inner_credentials(keys)
    return AccessRules(
        authenticates=True,
        authorizes=keys.authorizes,
        unauthenticated_codes=_codes(keys.authentication_whitelist),
        unauthorized_codes=_codes(keys.authorization_whitelist),
        allows_plain=keys.allow_plain_authentication,
        connection_signatures_only=keys.connection_signatures_only,
        supers=() if inner is None else (inner,),
    )


def _codes(text: str) -> frozenset[int]:
    return frozenset(int(part) for part in text.split(",") if part.strip())


def auth_problems(keys: AuthKeys, *, has_replicas: bool) -> list[str]:
    """Return the problems of the values; none of the texts contains a password."""
    problems = user_problems(keys)
    for key, text in (
        ("authenticationWhitelist", keys.authentication_whitelist),
        ("authorizationWhitelist", keys.authorization_whitelist),
    ):
        try:
            _codes(text)
        except ValueError:
            problems.append(f"option '{key}' must be request codes, separated by commas")
    if keys.authorization_enabled and not keys.authenticates:
        problems.append(
            "option 'authorizationEnabled' needs authenticationEnabled: without it a client could"
            " use any user's name"
        )
    if keys.migrate_auth_from_v1_enabled and not stores_users(keys):
        problems.append(
            "option 'migrateAuthFromV1Enabled' needs a key for the passwords:"
            " innerClientAuthenticationCredentials, authKeyFile or authenticationEnabled"
        )
    if keys.migrate_auth_from_v1_enabled and keys.acl_enable:
        problems.append(
            "option 'aclEnable' keeps the users equal to the files: remove"
            " 'migrateAuthFromV1Enabled', which reads them once, or use it alone"
        )
    if not keys.authenticates:
        return problems
    inner = inner_client_is_set(keys)
    if not inner and not keys.init_authentication_user.strip() and not keys.acl_enable:
        problems.append(
            "option 'authenticationEnabled' needs initAuthenticationUser, or nobody could sign a"
            " request"
        )
    if has_replicas and not inner:
        problems.append(
            f"option '{'aclEnable' if keys.acl_enable else 'authenticationEnabled'}' with replicas"
            " needs innerClientAuthenticationCredentials, the same on all brokers of the group:"
            " they sign the brokers' requests to each other"
        )
    return problems
