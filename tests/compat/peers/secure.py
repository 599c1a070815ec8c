"""Options of a broker that checks signatures and policies, and its first users."""

from epochmq.auth.credentials import Credentials

ADMIN = Credentials("admin", "admin-secret-1")
INNER = Credentials("inner", "inner-secret-1")
ADMIN_ENV = {"EPOCHMQ_ACCESS_KEY": ADMIN.access_key, "EPOCHMQ_SECRET_KEY": ADMIN.secret_key}
_JAVA = "org.apache.rocketmq.auth"
SECURE: dict[str, str | int | bool] = {
    "authenticationEnabled": True,
    "authorizationEnabled": True,
    "authenticationProvider": f"{_JAVA}.authentication.provider.DefaultAuthenticationProvider",
    "authenticationMetadataProvider": (
        f"{_JAVA}.authentication.provider.LocalAuthenticationMetadataProvider"
    ),
    "authorizationProvider": f"{_JAVA}.authorization.provider.DefaultAuthorizationProvider",
    "authorizationMetadataProvider": (
        f"{_JAVA}.authorization.provider.LocalAuthorizationMetadataProvider"
    ),
    "initAuthenticationUser": '{"username":"admin","password":"admin-secret-1"}',
    "innerClientAuthenticationCredentials": ('{"accessKey":"inner","secretKey":"inner-secret-1"}'),
}
"""RocketMQ's brokers need the class names; both kinds of brokers start with these options."""
SERVER = {
    key: SECURE[key]
    for key in (
        "authenticationEnabled",
        "initAuthenticationUser",
        "innerClientAuthenticationCredentials",
    )
}
"""The same of our name servers and controllers."""
