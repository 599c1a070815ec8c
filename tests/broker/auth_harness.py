"""A broker without sockets that checks signatures, and clients that sign."""

from typing import Any

from tests.broker.broker_harness import BrokerHarness

from epochmq.auth.credentials import Credentials
from epochmq.auth.password_cipher import PasswordCipher
from epochmq.wire.bodies.auth_bodies import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.codes import RequestCode as Code
from epochmq.wire.command import Command

CIPHER = PasswordCipher(b"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
ADMIN = Credentials("admin", "admin-secret")
INNER = Credentials("inner", "inner-secret")


class AuthHarness(BrokerHarness):
    """The broker of cluster `c`; `ask` sends a request of a user."""

    def __init__(self, **changes: Any) -> None:
        options: dict[str, Any] = {
            "authentication_enabled": True,
            "authorization_enabled": True,
            "init_authentication_user": '{"username":"admin","password":"admin-secret"}',
            "inner_client_authentication_credentials": (
                '{"accessKey":"inner","secretKey":"inner-secret"}'
            ),
            "allow_plain_authentication": True,
        }
        super().__init__(**{**options, **changes})
        self.node.accounts.unlock(CIPHER)
        self.node.update_users(leads=True)
        self.sink.save_metadata(self.clock.now)

    def ask(self, command: Command, user: Credentials | None = ADMIN) -> Command:
        """Return the answer to a request that `user` signs; None sends it unsigned."""
        if user is not None:
            user.sign(command)
        return self.client().ask(command)

    def put_user(self, user: Credentials, **more: str) -> Command:
        """Create a user as an administrator does."""
        info = UserInfo(username=user.access_key, password=user.secret_key, **more)
        ext = {"username": user.access_key}
        return self.ask(Command(Code.AUTH_CREATE_USER, ext=ext, body=encode_body(info)))

    def allow(self, user: Credentials, *rules: tuple[str, str], decision: str = "Allow") -> Command:
        """Give a user (resource, actions) pairs, as an administrator does."""
        entries = [
            PolicyEntryInfo(resource=resource, actions=actions.split(","), decision=decision)
            for resource, actions in rules
        ]
        body = AclInfo(
            subject=f"User:{user.access_key}",
            policies=[PolicyInfo(policy_type="Custom", entries=entries)],
        )
        ext = {"subject": f"User:{user.access_key}"}
        return self.ask(Command(Code.AUTH_CREATE_ACL, ext=ext, body=encode_body(body)))
