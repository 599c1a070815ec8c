"""What every answer to a browser has, and which requests are refused before they are read.

- `Host` must be a name of this dashboard: a page of another site, whose name was made to lead here,
  cannot read anything (DNS rebinding).
- Headers forbid scripts and styles of others, frames, and guesses of content types.
"""

from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
    " form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
_FOR_TLS = "max-age=31536000"


class WebSecurity:
    """Checks requests and completes answers, before and after `app`.

    Args:
        app: the application.
        hosts: host names that requests may have, in lower case and without ports.
        uses_tls: whether browsers reach the pages by TLS.
    """

    def __init__(self, app: ASGIApp, hosts: Collection[str], *, uses_tls: bool) -> None:
        self._app = app
        self._hosts = hosts
        self._headers = _HEADERS | ({"strict-transport-security": _FOR_TLS} if uses_tls else {})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def complete(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in self._headers.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
            await send(message)

        host = host_name(Headers(scope=scope).get("host", ""))
        if host not in self._hosts:
            text = f"this dashboard does not serve the host '{host[:100]}'; see option allowedHosts"
            await PlainTextResponse(text, 421)(scope, receive, complete)
            return
        await self._app(scope, receive, complete)


def host_name(text: str) -> str:
    """Return the name of a `Host` header, without its port, in lower case."""
    if text.startswith("["):
        return text[1:].partition("]")[0].lower()
    return text.partition(":")[0].lower()


def is_same_site(headers: Headers) -> bool:
    """Return whether a request comes from a page of the dashboard, by what the browser says."""
    site = headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    return origin is None or origin.partition("://")[2].lower() == headers.get("host", "").lower()
