"""Headers of the name server's key-value configuration: 100 to 102, 219."""

from epochmq.wire.headers.header import Header


class PutKVConfigHeader(Header):
    """PUT_KV_CONFIG 100."""

    namespace: str
    key: str
    value: str


class GetKVConfigHeader(Header):
    """GET_KV_CONFIG 101."""

    namespace: str
    key: str


class GetKVConfigResponseHeader(Header):
    """Answer to 101."""

    value: str | None = None


class DeleteKVConfigHeader(Header):
    """DELETE_KV_CONFIG 102."""

    namespace: str
    key: str


class GetKVListHeader(Header):
    """GET_KVLIST_BY_NAMESPACE 219; the answer's body is a KVTable."""

    namespace: str
