"""Administration of users and policies (ACL 2.0)."""

from collections.abc import Sequence

from epochmq.client.aio.admin_calls import Caller
from epochmq.wire.bodies.auth_bodies import (
    AclInfo,
    AuditEntries,
    AuditEntryInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
)
from epochmq.wire.bodies.body import decode_answer, encode_body
from epochmq.wire.codes import RequestCode
from epochmq.wire.command import request
from epochmq.wire.headers.auth_headers import (
    AclHeader,
    DeleteAclHeader,
    ListAclHeader,
    ListUserHeader,
    UserHeader,
)


class AuthCalls(Caller):
    """Requests about users and policies.

    A change at the master of an EpochMQ group reaches its replicas before it is answered. With
    RocketMQ's brokers, each broker must be asked.
    """

    async def create_user(self, address: str, user: UserInfo) -> None:
        """Create a user on one broker (3001); `user` has name and password."""
        header = UserHeader(username=user.username or None)
        await self.ask(address, request(RequestCode.AUTH_CREATE_USER, header, encode_body(user)))

    async def update_user(self, address: str, user: UserInfo) -> None:
        """Change what `user` gives beside its name on one broker (3002)."""
        header = UserHeader(username=user.username or None)
        await self.ask(address, request(RequestCode.AUTH_UPDATE_USER, header, encode_body(user)))

    async def delete_user(self, address: str, name: str) -> None:
        """Delete a user and its policies on one broker (3003)."""
        await self.ask(address, request(RequestCode.AUTH_DELETE_USER, UserHeader(username=name)))

    async def user(self, address: str, name: str) -> UserInfo | None:
        """Return a user of one broker, None if there is none (3004).

        EpochMQ's brokers mask the password.
        """
        command = request(RequestCode.AUTH_GET_USER, UserHeader(username=name))
        answer = await self.ask(address, command)
        return decode_answer(UserInfo, answer.body) if answer.body else None

    async def users(self, address: str, part: str | None = None) -> list[UserInfo]:
        """Return the users of one broker whose name contains `part` (3005)."""
        command = request(RequestCode.AUTH_LIST_USER, ListUserHeader(filter=part))
        answer = await self.ask(address, command)
        return decode_answer(list[UserInfo], answer.body) if answer.body else []

    async def put_acl(self, address: str, acl: AclInfo, *, update: bool = False) -> None:
        """Add entries to the policies of a user on one broker (3006, or 3007 for `update`).

        An entry replaces the one of the same resource.
        """
        code = RequestCode.AUTH_UPDATE_ACL if update else RequestCode.AUTH_CREATE_ACL
        header = AclHeader(subject=acl.subject or None)
        await self.ask(address, request(code, header, encode_body(acl)))

    async def delete_acl(
        self,
        address: str,
        subject: str,
        resource: str | None = None,
        *,
        policy_type: str | None = None,
    ) -> None:
        """Delete one entry, or without `resource` all policies of a user, on one broker (3008)."""
        header = DeleteAclHeader(subject=subject, policyType=policy_type, resource=resource)
        await self.ask(address, request(RequestCode.AUTH_DELETE_ACL, header))

    async def acl(self, address: str, subject: str) -> AclInfo | None:
        """Return the policies of a user on one broker, None if there are none (3009)."""
        answer = await self.ask(
            address, request(RequestCode.AUTH_GET_ACL, AclHeader(subject=subject))
        )
        return decode_answer(AclInfo, answer.body) if answer.body else None

    async def acls(
        self, address: str, subject: str | None = None, resource: str | None = None
    ) -> list[AclInfo]:
        """Return the policies of all users on one broker (3010).

        Args:
            address: address of the broker.
            subject: a part of the subject; None means all.
            resource: a part of the resource; None means all.
        """
        header = ListAclHeader(subjectFilter=subject, resourceFilter=resource)
        answer = await self.ask(address, request(RequestCode.AUTH_LIST_ACL, header))
        return decode_answer(list[AclInfo], answer.body) if answer.body else []

    async def audit_log(self, address: str) -> list[AuditEntryInfo]:
        """Return the latest lines of a broker's audit log, oldest first (34012).

        Raises:
            Refused: the broker is RocketMQ's, which has no such request.
        """
        answer = await self.ask(address, request(RequestCode.READ_AUDIT_LOG))
        return decode_answer(AuditEntries, answer.body).entries


def policy_of(
    subject: str,
    resources: Sequence[str],
    actions: Sequence[str],
    decision: str,
    sources: Sequence[str] = (),
    *,
    policy_type: str = "Custom",
) -> AclInfo:
    """Return a policy with one entry for each resource.

    Args:
        subject: the user, as `User:NAME`.
        resources: for example `Topic:orders`, `Topic:ord*`, `Group:*` or `*`.
        actions: for example `Pub`, `Sub`, `All`.
        decision: `Allow` or `Deny`.
        sources: IP addresses and ranges; none means all.
        policy_type: `Custom`, or `Default` for entries that count if no other matches.
    """
    entries = [
        PolicyEntryInfo(
            resource=resource,
            actions=list(actions),
            source_ips=list(sources) or None,
            decision=decision,
        )
        for resource in resources
    ]
    return AclInfo(subject=subject, policies=[PolicyInfo(policy_type=policy_type, entries=entries)])
