"""The web application: answers the requests of browsers with pages, JSON and events."""

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from epochmq import __version__
from epochmq.admin.dashboard import (
    audit_queries,
    group_queries,
    job_queries,
    message_queries,
    topic_queries,
    waiting_queries,
)
from epochmq.admin.dashboard.actions import Actions
from epochmq.admin.dashboard.cluster_client import ClusterClient
from epochmq.admin.dashboard.live_tail import tail
from epochmq.admin.dashboard.paging import Row
from epochmq.admin.dashboard.sessions import BrowserSession, SessionTable
from epochmq.admin.dashboard.watched_cluster import WatchedCluster
from epochmq.admin.dashboard.web_security import is_same_site
from epochmq.admin.shared.exits import explain
from epochmq.auth.credentials import Credentials
from epochmq.auth.failed_logins import FailedLogins
from epochmq.base.errors import EpochError, NotFound, NotReachable, Refused, UsageError
from epochmq.wire.codes import ResponseCode

log = logging.getLogger(__name__)

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
COOKIE = "epochmq_session"
BODY_BYTES_MAX = 16 * 1024
STREAMS_MAX = 200
"""Pages that get events at one time."""
HEARTBEAT_S = 10.0
EXPIRY_S = 30.0
FREE_FAILURES = 5
"""Failed logins of one name from one browser; fewer than a broker counts, which sees all of them as
failures of the dashboard and would refuse everybody.
"""
BLOCK_MS = 10_000
_TEXT_MAX = 1_000
_FOREVER_MS = 1 << 62

Answer = Callable[[Request, ClusterClient], Awaitable[Row | Sequence[Row]]]


class DashboardApp:
    """The application and what it keeps. `app` is its ASGI interface.

    Args:
        clusters: the clusters, by name.
        actions: carries out actions.
        sessions: the sessions of browsers.
        secure_cookies: whether browsers send the cookie by TLS only.
    """

    def __init__(
        self,
        clusters: Mapping[str, WatchedCluster],
        actions: Actions,
        sessions: SessionTable,
        *,
        secure_cookies: bool,
    ) -> None:
        self._clusters = clusters
        self._actions = actions
        self._sessions = sessions
        self._secure_cookies = secure_cookies
        self._failed = FailedLogins(FREE_FAILURES, BLOCK_MS)
        self._streams = 0
        self._stopping = asyncio.Event()
        files = {each.name: each for each in STATIC.iterdir() if each.suffix in _TYPES}
        self._files = {
            name: (path.read_bytes(), _TYPES[path.suffix]) for name, path in files.items()
        }
        self.app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/static/{name}", self._static),
                Route("/api/session", self._session),
                Route("/api/login", self._login, methods=["POST"]),
                Route("/api/logout", self._logout, methods=["POST"]),
                Route("/api/c/{cluster}/events", self._events),
                Route("/api/c/{cluster}/tail", self._tail),
                *self._questions(),
                Route("/api/c/{cluster}/resend", self._resend, methods=["POST"]),
                Route("/api/c/{cluster}/reset", self._reset, methods=["POST"]),
            ],
            exception_handlers={HTTPException: _http_error, EpochError: _error, Exception: _bug},
        )

    # Life ------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Watch the clusters and end sessions that are over, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for watched in self._clusters.values():
                tasks.create_task(watched.run())
            tasks.create_task(self._end_sessions())

    async def stop(self) -> None:
        """End all events and logins."""
        self._stopping.set()
        await self._close(self._sessions.end_expired(_FOREVER_MS))

    async def _end_sessions(self) -> None:
        while True:
            await asyncio.sleep(EXPIRY_S)
            await self._close(self._sessions.end_expired(_now()))

    async def _close(self, clients: Sequence[ClusterClient]) -> None:
        for client in clients:
            self._clusters[client.name].stop_using(client, self._sessions.clients_of(client.name))
            await client.close()

    # Pages -----------------------------------------------------------------------------------

    async def _index(self, request: Request) -> Response:
        return self._file("index.html")

    async def _static(self, request: Request) -> Response:
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        if name not in self._files:
            raise HTTPException(404, f"there is no file {name[:100]}")
        data, kind = self._files[name]
        return Response(data, media_type=kind, headers={"cache-control": "no-cache"})

    # Sessions --------------------------------------------------------------------------------

    async def _session(self, request: Request) -> Response:
        """Return the session of the browser; a browser without one gets one."""
        session = self._sessions.find(request.cookies.get(COOKIE, ""), _now())
        is_new = session is None
        if session is None:
            session = self._sessions.begin(_now())
        response = JSONResponse(self._session_row(session))
        if is_new:
            self._set_cookie(response, session)
        return response

    def _session_row(self, session: BrowserSession) -> Row:
        return {
            "version": __version__,
            "csrf": session.csrf,
            "read_only": self._actions.read_only,
            "clusters": [
                {
                    "name": name,
                    "namesrv": watched.anonymous.namesrv,
                    "login_required": watched.login_required,
                    "problem": watched.problem or None,
                    "user": session.logins[name].user if name in session.logins else None,
                }
                for name, watched in self._clusters.items()
            ],
        }

    def _set_cookie(self, response: Response, session: BrowserSession) -> None:
        response.set_cookie(
            COOKIE,
            session.id,
            path="/",
            httponly=True,
            samesite="strict",
            secure=self._secure_cookies,
        )

    def _found_session(self, request: Request) -> BrowserSession:
        session = self._sessions.find(request.cookies.get(COOKIE, ""), _now())
        if session is None:
            raise HTTPException(401, "the session has ended")
        return session

    def _checked_session(self, request: Request) -> BrowserSession:
        """Return the session of a request that changes something.

        Such a request must come from a page of the dashboard and repeat its token.
        """
        session = self._found_session(request)
        kind = request.headers.get("content-type", "").partition(";")[0]
        token = request.headers.get("x-csrf-token", "")
        if not is_same_site(request.headers) or kind != "application/json":
            raise HTTPException(403, "this request does not come from a page of the dashboard")
        if not session.has_token(token):
            raise HTTPException(403, "the token of the session is missing or wrong")
        return session

    async def _login(self, request: Request) -> Response:
        """Log in at one cluster, with a user of that cluster."""
        session = self._checked_session(request)
        body = await _json_of(request)
        watched = self._watched(_text(body, "cluster"))
        user, password = _text(body, "user"), _text(body, "password")
        peer = _peer(request)
        if self._failed.is_blocked(user, peer, _now()):
            raise HTTPException(429, "too many failed logins; try again in 10 seconds")
        client = ClusterClient(watched.name, watched.anonymous.namesrv, Credentials(user, password))
        try:
            await self._try(client)
        except BaseException as error:
            await client.close()
            if isinstance(error, Refused) and error.code == ResponseCode.NO_PERMISSION:
                self._failed.failed(user, peer, _now())
                log.warning(
                    "login of %(user)s at cluster %(cluster)s from %(peer)s failed",
                    {"user": user, "cluster": watched.name, "peer": peer},
                )
                raise HTTPException(
                    403, "the user or the password is wrong, or the user may not read the cluster"
                ) from None
            raise
        self._failed.succeeded(user, peer)
        log.info(
            "%(user)s logged in at cluster %(cluster)s from %(peer)s",
            {"user": user, "cluster": watched.name, "peer": peer},
        )
        old = session.logins.pop(watched.name, None)
        session = self._sessions.renew(session, _now())
        session.logins[watched.name] = client
        watched.lend(client)
        if old is not None:
            await self._close([old])
        response = JSONResponse(self._session_row(session))
        self._set_cookie(response, session)
        return response

    async def _try(self, client: ClusterClient) -> None:
        """Ask what every user of the dashboard must be allowed to ask."""
        masters = await client.admin.masters()
        if not masters:
            raise NotReachable(f"no master of cluster {client.name} is registered now")
        await client.admin.runtime_info(next(iter(masters.values())))

    async def _logout(self, request: Request) -> Response:
        session = self._checked_session(request)
        await self._close(self._sessions.end(session))
        response = JSONResponse({})
        response.delete_cookie(COOKIE, path="/")
        return response

    # Rights ----------------------------------------------------------------------------------

    def _watched(self, name: str) -> WatchedCluster:
        if name not in self._clusters:
            raise HTTPException(404, f"the dashboard does not show a cluster {name[:100]}")
        return self._clusters[name]

    def _client(self, session: BrowserSession, watched: WatchedCluster) -> ClusterClient:
        """Return the connections with the rights of the session at a cluster."""
        if watched.name in session.logins:
            return session.logins[watched.name]
        if watched.login_required is None:
            raise HTTPException(503, f"cluster {watched.name} has not answered: {watched.problem}")
        if watched.login_required:
            raise HTTPException(401, f"cluster {watched.name} wants a login")
        return watched.anonymous

    # Questions -------------------------------------------------------------------------------

    def _questions(self) -> list[Route]:
        answers: dict[str, Answer] = {
            "topics": lambda request, client: topic_queries.topic_list(client, *_page(request)),
            "topic": lambda request, client: topic_queries.topic_detail(
                client, _query(request, "topic")
            ),
            "groups": lambda request, client: group_queries.group_list(client, *_page(request)),
            "group": lambda request, client: group_queries.group_detail(
                client, _query(request, "group"), _wall_ms()
            ),
            "messages": _messages,
            "message": lambda request, client: message_queries.message_detail(
                client, _query(request, "topic"), _query(request, "id")
            ),
            "dead-letter-groups": lambda _, client: message_queries.dead_letter_groups(client),
            "dead-letters": self._dead_letters,
            "waiting": lambda _, client: waiting_queries.waiting(client, _wall_ms()),
            "jobs": lambda _, client: job_queries.job_list(client, _wall_ms()),
            "actions": self._latest_actions,
            "changes": lambda _, client: audit_queries.latest_changes(client),
        }
        return [Route(f"/api/c/{{cluster}}/{name}", self._ask(a)) for name, a in answers.items()]

    def _ask(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            session = self._found_session(request)
            client = self._client(session, self._watched(request.path_params["cluster"]))
            return JSONResponse(_plain(await answer(request, client)))

        return endpoint

    async def _dead_letters(self, request: Request, client: ClusterClient) -> Row:
        group = _query(request, "group")
        ledger = self._actions.ledger(client.name, group)
        return await message_queries.dead_letters(client, group, ledger)

    async def _latest_actions(self, request: Request, client: ClusterClient) -> Sequence[Row]:
        return await asyncio.to_thread(self._actions.log.latest, client.name)

    # Actions ---------------------------------------------------------------------------------

    async def _resend(self, request: Request) -> Response:
        session = self._checked_session(request)
        client = self._client(session, self._watched(request.path_params["cluster"]))
        body = await _json_of(request)
        group, place, to = (_text(body, name) for name in ("group", "place", "to"))
        return JSONResponse(await self._actions.resend(client, _peer(request), group, place, to))

    async def _reset(self, request: Request) -> Response:
        session = self._checked_session(request)
        client = self._client(session, self._watched(request.path_params["cluster"]))
        body = await _json_of(request)
        group, topic, to = (_text(body, name) for name in ("group", "topic", "to"))
        return JSONResponse(await self._actions.reset(client, _peer(request), group, topic, to))

    # Events ----------------------------------------------------------------------------------

    async def _events(self, request: Request) -> Response:
        """Send the state of a cluster now and after each change."""
        session = self._found_session(request)
        watched = self._watched(request.path_params["cluster"])
        self._client(session, watched)  # the session may see it

        async def states() -> AsyncGenerator[Row | None]:
            seen = -1
            with watched.reading():
                while True:
                    version = await watched.wait_for_change(seen, HEARTBEAT_S)
                    self._client(session, watched)
                    yield None if version == seen else watched.state(with_samples=seen < 0)
                    seen = version

        return self._stream(session, states())

    async def _tail(self, request: Request) -> Response:
        """Send the messages of a topic that are stored from now on."""
        session = self._found_session(request)
        client = self._client(session, self._watched(request.path_params["cluster"]))
        expression = message_queries.filter_of(
            request.query_params.get("filter", "")[:_TEXT_MAX],
            request.query_params.get("kind") == "sql",
        )
        rows = tail(client, _query(request, "topic"), expression, HEARTBEAT_S)
        return self._stream(session, rows)

    def _stream(self, session: BrowserSession, rows: AsyncGenerator[Row | None]) -> Response:
        """Return an answer that ends with the session; None in `rows` is sent as a comment."""
        if self._streams >= STREAMS_MAX:
            raise HTTPException(503, "too many pages are open")

        async def chunks() -> AsyncGenerator[bytes]:
            self._streams += 1
            try:
                async with contextlib.aclosing(rows):
                    async for row in rows:
                        if self._stopping.is_set() or not self._sessions.is_alive(session, _now()):
                            break
                        yield b": \n\n" if row is None else b"data: " + _encoded(row) + b"\n\n"
            except (HTTPException, EpochError) as error:
                text = error.detail if isinstance(error, HTTPException) else explain(error)
                yield b"event: problem\ndata: " + _encoded({"error": text}) + b"\n\n"
            finally:
                self._streams -= 1

        return StreamingResponse(chunks(), media_type="text/event-stream")


# Requests ------------------------------------------------------------------------------------


def _now() -> int:
    return time.monotonic_ns() // 1_000_000


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


def _peer(request: Request) -> str:
    return request.client.host if request.client is not None else "-"


def _query(request: Request, name: str) -> str:
    """Return a parameter of the address; raises `UsageError` if it is missing."""
    text = request.query_params.get(name, "").strip()
    if not text or len(text) > _TEXT_MAX:
        raise UsageError(f"parameter '{name}' is missing or too long")
    return text


def _number(request: Request, name: str, default: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 15:
        raise UsageError(f"parameter '{name}' must be a number")
    return int(text)


def _page(request: Request) -> tuple[str, int, bool]:
    part = request.query_params.get("part", "")[:_TEXT_MAX]
    return part, _number(request, "page", 0), request.query_params.get("system") == "1"


async def _messages(request: Request, client: ClusterClient) -> Sequence[Row]:
    return await message_queries.find_messages(
        client,
        _query(request, "topic"),
        msg_id=request.query_params.get("id", "").strip()[:_TEXT_MAX],
        key=request.query_params.get("key", "").strip()[:_TEXT_MAX],
        begin_ms=_number(request, "begin", 0),
        end_ms=_number(request, "end", _FOREVER_MS),
    )


async def _json_of(request: Request) -> dict[str, object]:
    """Return the JSON object in the body; raises `UsageError` for anything else."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > BODY_BYTES_MAX:
            raise HTTPException(413, f"the body is longer than {BODY_BYTES_MAX} bytes")
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        raise UsageError("the body is not JSON") from None
    if not isinstance(found, dict):
        raise UsageError("the body is not a JSON object")
    return found


def _text(body: dict[str, object], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value or len(value) > _TEXT_MAX:
        raise UsageError(f"'{name}' must be a text of 1 to {_TEXT_MAX} characters")
    return value


# Answers -------------------------------------------------------------------------------------


def _plain(value: object) -> object:
    """Return `value` without numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _encoded(row: Row) -> bytes:
    return json.dumps(_plain(row), ensure_ascii=False, separators=(",", ":")).encode()


def _status(error: EpochError) -> int:
    if isinstance(error, Refused):
        return 403 if error.code == ResponseCode.NO_PERMISSION else 502
    for kind, status in ((NotFound, 404), (UsageError, 400), (NotReachable, 503)):
        if isinstance(error, kind):
            return status
    return 500


async def _error(request: Request, error: Exception) -> Response:
    assert isinstance(error, EpochError)
    return JSONResponse({"error": explain(error)}, _status(error))


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _bug(request: Request, error: Exception) -> Response:
    log.error("a bug in the dashboard, at %(path)s", {"path": request.url.path}, exc_info=error)
    return JSONResponse({"error": "a bug in the dashboard; its log has the details"}, 500)
