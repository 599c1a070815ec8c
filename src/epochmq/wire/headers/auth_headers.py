"""Headers of requests about users and policies (ACL 2.0): 3001 to 3010."""

from epochmq.wire.header import Header


class UserHeader(Header):
    """AUTH_CREATE_USER 3001, AUTH_UPDATE_USER 3002, AUTH_DELETE_USER 3003, AUTH_GET_USER 3004."""

    username: str | None = None


class ListUserHeader(Header):
    """AUTH_LIST_USER 3005; `filter` is a part of the user name."""

    filter: str | None = None


class AclHeader(Header):
    """AUTH_CREATE_ACL 3006, AUTH_UPDATE_ACL 3007, AUTH_GET_ACL 3009; `subject` is `User:NAME`."""

    subject: str | None = None


class DeleteAclHeader(Header):
    """AUTH_DELETE_ACL 3008; without `resource`, all policies of the subject are deleted."""

    subject: str | None = None
    policyType: str | None = None
    resource: str | None = None


class ListAclHeader(Header):
    """AUTH_LIST_ACL 3010; both fields are parts of the text that is listed."""

    subjectFilter: str | None = None
    resourceFilter: str | None = None
