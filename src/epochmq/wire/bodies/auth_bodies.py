"""Bodies of requests about users and policies (ACL 2.0): 3001 to 3010."""

from msgspec import UNSET

from epochmq.wire.bodies.body import Body, MaybeText

SUBJECT = "User:"
"""Begins the subject of a policy; the user name follows."""
MASKED = "******"
"""Answered instead of a password; a client that sends it back changes nothing."""


class UserInfo(Body):
    """A user. In answers the password is masked."""

    username: MaybeText = UNSET
    password: MaybeText = UNSET
    user_type: MaybeText = UNSET
    user_status: MaybeText = UNSET


class AuditEntryInfo(Body):
    """One line of an audit log; `wall_ms` is Unix milliseconds."""

    wall_ms: int
    user: str
    peer: str
    request: str
    resources: str
    result: str


class AuditEntries(Body):
    """Answer to READ_AUDIT_LOG 34012, oldest first."""

    entries: list[AuditEntryInfo] = []


class PolicyEntryInfo(Body):
    """One entry of a policy."""

    resource: MaybeText = UNSET
    actions: list[str] | None = None
    source_ips: list[str] | None = None
    decision: MaybeText = UNSET


class PolicyInfo(Body):
    """The entries of one type of policy, Custom or Default."""

    policy_type: MaybeText = UNSET
    entries: list[PolicyEntryInfo] | None = None


class AclInfo(Body):
    """The policies of a subject, `User:NAME`."""

    subject: MaybeText = UNSET
    policies: list[PolicyInfo] | None = None
