"""TLS of remoting ports and connections: the options of RocketMQ's tls.properties, SSL contexts.

Mode `permissive` serves plain and TLS clients on one port. The first byte distinguishes them: a
plain frame starts with 0x00, a TLS hello with 0x16.
"""

import ssl
from contextvars import ContextVar
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from epochmq.base.errors import ConfigError
from epochmq.base.options import PATH, option

DISABLED, PERMISSIVE, ENFORCING = "disabled", "permissive", "enforcing"

outgoing_tls: ContextVar[ssl.SSLContext | None] = ContextVar("outgoing_tls", default=None)
"""SSL context of clients without TLS options; the command line sets it for all its clients."""


_outgoing: "WeakKeyDictionary[ssl.SSLContext, OutgoingTls]" = WeakKeyDictionary()
"""The contexts of outgoing connections that are in use, with the options that made them."""


@dataclass(frozen=True, kw_only=True)
class OutgoingTls:
    """TLS options of a process's outgoing connections."""

    tls_enable: bool = option(
        False, "Whether connections to other nodes speak TLS.", key="tls.enable"
    )
    tls_client_auth_server: bool = option(
        True,
        "Whether servers' certificates are checked (RocketMQ's default is not).",
        key="tls.client.authServer",
    )
    tls_client_trust_cert_path: str = option(
        "",
        "PEM file with the authorities that servers' certificates are checked against. Empty is the"
        " system's authorities, and then host names are always compared.",
        key="tls.client.trustCertPath",
        unit=PATH,
    )
    tls_client_check_host_name: bool = option(
        False,
        "Whether a server's certificate must hold the name or address that was dialled, with"
        " tls.client.trustCertPath too. Without it every holder of a certificate of those"
        " authorities, a client as well, can pass for a server.",
        key="tls.client.checkHostName",
    )
    tls_client_cert_path: str = option(
        "",
        "PEM file with the certificate to show to servers that ask for one.",
        key="tls.client.certPath",
        unit=PATH,
    )
    tls_client_key_path: str = option(
        "", "PEM file with its private key.", key="tls.client.keyPath", unit=PATH
    )


@dataclass(frozen=True, kw_only=True)
class TlsOptions(OutgoingTls):
    """TLS options of a server.

    RocketMQ's default mode is permissive, with a generated certificate; here it is disabled.
    """

    tls_mode: str = option(
        DISABLED,
        "Whether TLS is refused, offered beside plain connections, or demanded.",
        key="tls.server.mode",
        choices=(DISABLED, PERMISSIVE, ENFORCING),
    )
    tls_cert_path: str = option(
        "", "PEM file with the server's certificate chain.", key="tls.server.certPath", unit=PATH
    )
    tls_key_path: str = option(
        "", "PEM file with its private key.", key="tls.server.keyPath", unit=PATH
    )
    tls_trust_cert_path: str = option(
        "",
        "PEM file with the authorities that clients' certificates are checked against.",
        key="tls.server.trustCertPath",
        unit=PATH,
    )
    tls_need_client_auth: str = option(
        "none",
        "Whether clients must show a certificate.",
        key="tls.server.need.client.auth",
        choices=("none", "optional", "require"),
    )


@dataclass(slots=True, eq=False, weakref_slot=True)
class ServerTls:
    """The TLS settings of a listening port."""

    context: ssl.SSLContext
    enforced: bool
    options: TlsOptions

    def renew(self) -> str:
        """Read the certificate files again, for new connections; return a text for the log.

        Raises `ConfigError` for files that cannot be used; the old context then stays.
        """
        self.context = _server_context(self.options)
        return f"the certificate in {self.options.tls_cert_path} is read again"


def server_tls(options: TlsOptions) -> ServerTls | None:
    """Return the TLS settings of a server, None when TLS is disabled.

    Raises `ConfigError`, which names the file that cannot be used.
    """
    if options.tls_mode == DISABLED:
        return None
    if not options.tls_cert_path or not options.tls_key_path:
        raise ConfigError(
            [f"tls.server.mode={options.tls_mode} needs tls.server.certPath and tls.server.keyPath"]
        )
    return ServerTls(_server_context(options), options.tls_mode == ENFORCING, options)


def _server_context(options: TlsOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _show(context, options.tls_cert_path, options.tls_key_path)
    _set_client_auth(context, options)
    return context


def client_tls(options: OutgoingTls) -> ssl.SSLContext | None:
    """Return the SSL context of outgoing connections, None when they are plain.

    Raises `ConfigError`, which names the file that cannot be used.
    """
    if not options.tls_enable:
        return None
    context = _client_context(options)
    _outgoing[context] = options
    return context


def renew_outgoing() -> str:
    """Read the certificate files of outgoing connections again, for new connections.

    Returns a text for the log, empty if there are none. An authority that was removed from a file
    stays until a restart.

    Raises `ConfigError` for files that cannot be used; nothing is changed then.
    """
    renewed = dict(_outgoing)
    for options in renewed.values():
        _client_context(options)
    for context, options in renewed.items():
        if options.tls_client_trust_cert_path and options.tls_client_auth_server:
            _trust(context, options.tls_client_trust_cert_path)
        if options.tls_client_cert_path:
            _show(context, options.tls_client_cert_path, options.tls_client_key_path)
    return "the certificates of outgoing connections are read again" if renewed else ""


def _client_context(options: OutgoingTls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    trusted = options.tls_client_trust_cert_path
    named = options.tls_client_check_host_name or not trusted
    if not (named and options.tls_client_auth_server):
        context.check_hostname = False  # brokers' certificates may not contain their addresses
    if not options.tls_client_auth_server:
        context.verify_mode = ssl.CERT_NONE
    elif trusted:
        _trust(context, trusted)
    else:
        context.load_default_certs()
    cert, key = options.tls_client_cert_path, options.tls_client_key_path
    if bool(cert) != bool(key):
        raise ConfigError(["tls.client.certPath and tls.client.keyPath need each other"])
    if cert:
        _show(context, cert, key)
    return context


def _show(context: ssl.SSLContext, cert: str, key: str) -> None:
    try:
        context.load_cert_chain(cert, key)
    except (OSError, ssl.SSLError) as error:
        text = f"cannot use the certificate and key in {cert} and {key}: {error}"
        raise ConfigError([text]) from None


def _trust(context: ssl.SSLContext, file: str) -> None:
    try:
        context.load_verify_locations(file)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError([f"cannot use the authorities in {file}: {error}"]) from None


def _set_client_auth(context: ssl.SSLContext, options: TlsOptions) -> None:
    modes = {"none": ssl.CERT_NONE, "optional": ssl.CERT_OPTIONAL, "require": ssl.CERT_REQUIRED}
    context.verify_mode = modes[options.tls_need_client_auth]
    if context.verify_mode == ssl.CERT_NONE:
        return
    trusted = options.tls_trust_cert_path
    if not trusted:
        raise ConfigError(["tls.server.need.client.auth needs tls.server.trustCertPath"])
    _trust(context, trusted)
