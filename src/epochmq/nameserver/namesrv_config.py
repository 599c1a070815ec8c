"""Request handlers for the key-value configuration and for the name server's options."""

from epochmq.base import limits
from epochmq.base.errors import ConfigError, Refused
from epochmq.base.options import change, describe, parse_properties, render_properties
from epochmq.nameserver.name_server_node import NameServerNode
from epochmq.nameserver.options import NamesrvOptions
from epochmq.runtime.logging_setup import set_level
from epochmq.runtime.server_log_options import LOG_LEVEL
from epochmq.wire.bodies.body import encode_body
from epochmq.wire.bodies.namesrv_bodies import KVTable
from epochmq.wire.codes import ResponseCode
from epochmq.wire.command import Command, Held, Reply
from epochmq.wire.header import decode_header
from epochmq.wire.headers import namesrv_headers as headers
from epochmq.wire.session import Session

_MUTABLE = frozenset(row.key for row in describe(NamesrvOptions) if row.mutable)


def handle_put_kv(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply | Held:
    """Set a key-value entry (100); answered when it is saved."""
    header = decode_header(headers.PutKVConfigHeader, request.ext)
    node.kv.put(header.namespace, header.key, header.value)
    node.routes.forget((header.key,))
    return node.save_kv(session, request)


def handle_get_kv(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Return a key-value entry (101); 22 if there is none."""
    header = decode_header(headers.GetKVConfigHeader, request.ext)
    value = node.kv.get(header.namespace, header.key)
    if value is None:
        raise Refused(
            ResponseCode.QUERY_NOT_FOUND,
            f"No config item, Namespace: {header.namespace} Key: {header.key}",
        )
    return Reply(header=headers.GetKVConfigResponseHeader(value))


def handle_delete_kv(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply | Held:
    """Delete a key-value entry (102); a missing entry is no error."""
    header = decode_header(headers.DeleteKVConfigHeader, request.ext)
    if not node.kv.delete(header.namespace, header.key):
        return Reply()
    node.routes.forget((header.key,))
    return node.save_kv(session, request)


def handle_list_kv(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Return all entries of a namespace (219); 22 if there is no such namespace."""
    header = decode_header(headers.GetKVListHeader, request.ext)
    table = node.kv.list(header.namespace)
    if table is None:
        raise Refused(
            ResponseCode.QUERY_NOT_FOUND, f"No config item, Namespace: {header.namespace}"
        )
    return Reply(body=encode_body(KVTable(table)))


def handle_update_config(
    node: NameServerNode, request: Command, session: Session, now: int
) -> Reply:
    """Change options that may change at run time; no path, address or port (CVE-2023-37582).

    Raises:
        Refused: 16 for any other option, known or not; 1 for an invalid value.
    """
    if len(request.body) > limits.CONFIG_BODY_BYTES_MAX:
        raise Refused(ResponseCode.SYSTEM_ERROR, "the properties text is too long")
    try:
        told = parse_properties(bytes(request.body).decode())
    except (ConfigError, UnicodeDecodeError) as error:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"not a properties text: {error}") from None
    try:
        options = change(node.options, told)
    except ConfigError as error:
        allowed = told.keys() <= _MUTABLE
        code = ResponseCode.SYSTEM_ERROR if allowed else ResponseCode.NO_PERMISSION
        raise Refused(code, str(error)) from None
    if LOG_LEVEL in told:
        set_level(options.log_level)
    node.options = options
    return Reply()


def handle_get_config(node: NameServerNode, request: Command, session: Session, now: int) -> Reply:
    """Return the options as a properties text; secrets are hidden (319)."""
    return Reply(body=render_properties((node.options,)).encode())
