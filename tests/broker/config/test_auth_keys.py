"""Options of users and policies: RocketMQ's files work, and half configurations do not start."""

import pytest

from epochmq.auth.server_keys import initial_user, inner_credentials
from epochmq.base.errors import ConfigError
from epochmq.base.options import render_properties
from epochmq.broker.config.auth_keys import access_rules
from epochmq.broker.config.options import BrokerOptions, load_options

USER = '{"username":"admin","password":"hunter2"}'
INNER = '{"accessKey":"inner","secretKey":"hunter2"}'


def load(**keys: str) -> BrokerOptions:
    return load_options(keys, env={})


def test_nothing_is_checked_by_default() -> None:
    assert access_rules(load()) is None
    assert initial_user(load()) is None
    assert inner_credentials(load()) is None


def test_a_file_of_rocketmq() -> None:
    package = "org.apache.rocketmq.auth."
    options = load(
        authenticationEnabled="true",
        authorizationEnabled="true",
        authenticationProvider=f"{package}authentication.provider.DefaultAuthenticationProvider",
        authenticationMetadataProvider=(
            f"{package}authentication.provider.LocalAuthenticationMetadataProvider"
        ),
        authorizationStrategy=f"{package}authorization.strategy.StatelessAuthorizationStrategy",
        initAuthenticationUser=USER,
        innerClientAuthenticationCredentials=INNER,
        authenticationWhitelist="10, 34",
        userCacheMaxNum="1000",
    )
    rules = access_rules(options)
    assert rules is not None
    assert rules.authorizes
    assert rules.unauthenticated_codes == {10, 34}
    assert rules.supers == (inner_credentials(options),)
    assert not rules.allows_plain
    shown = render_properties([options])
    assert "hunter2" not in shown + repr(options) + repr(rules)
    assert "initAuthenticationUser=******" in shown


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"authorizationEnabled": "true"}, "needs authenticationEnabled"),
        ({"authenticationEnabled": "true"}, "needs initAuthenticationUser"),
        ({"initAuthenticationUser": "hunter2"}, "'initAuthenticationUser' must be JSON"),
        ({"innerClientAuthenticationCredentials": USER}, "Credentials' must be JSON"),
        ({"authenticationWhitelist": "SEND"}, "'authenticationWhitelist' must be request codes"),
        ({"authenticationProvider": "com.example.Own"}, "must be one of"),
        ({"migrateAuthFromV1Enabled": "true"}, "needs a key for the passwords"),
        (
            {
                "authenticationEnabled": "true",
                "initAuthenticationUser": USER,
                "totalReplicas": "2",
                "enableSlaveActingMaster": "true",
            },
            "needs innerClientAuthenticationCredentials",
        ),
        (
            {
                "authenticationEnabled": "true",
                "initAuthenticationUser": USER,
                "brokerRole": "SLAVE",
                "brokerId": "1",
            },
            "needs innerClientAuthenticationCredentials",
        ),
    ],
)
def test_half_configurations_do_not_start(keys: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem) as error:
        load(**keys)
    assert "hunter2" not in str(error.value)


def test_acl_1_is_authentication_and_authorization() -> None:
    options = load(aclEnable="true", plainAclPath="plain_acl.yml")
    rules = access_rules(options)
    assert rules is not None
    assert rules.authenticates
    assert rules.authorizes
    assert load(aclEnable="false").acl_enable is False


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"migrateAuthFromV1Enabled": "true"}, "reads them once"),
        ({"totalReplicas": "2"}, "needs innerClientAuthenticationCredentials"),
    ],
)
def test_acl_1_with_other_options(keys: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(aclEnable="true", **keys)
