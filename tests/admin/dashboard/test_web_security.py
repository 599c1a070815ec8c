"""Headers of each answer, and requests that are refused before they are read."""

import httpx
import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from epochmq.admin.dashboard.web_security import WebSecurity, host_name, is_same_site


async def hello(request: Request) -> Response:
    return PlainTextResponse("hello")


def app(*, uses_tls: bool = False) -> WebSecurity:
    return WebSecurity(
        Starlette(routes=[Route("/", hello)]), {"localhost", "::1"}, uses_tls=uses_tls
    )


async def get(host: str, *, uses_tls: bool = False) -> httpx.Response:
    transport = httpx.ASGITransport(app(uses_tls=uses_tls))
    async with httpx.AsyncClient(transport=transport) as client:
        return await client.get("http://localhost/", headers={"host": host})


async def test_each_answer_has_the_headers_also_a_refusal() -> None:
    for host in ("localhost", "evil.example.org"):
        found = (await get(host)).headers
        assert "default-src 'none'" in found["content-security-policy"]
        assert "unsafe" not in found["content-security-policy"]
        assert found["x-content-type-options"] == "nosniff"
        assert found["x-frame-options"] == "DENY"
        assert found["referrer-policy"] == "no-referrer"
        assert found["cache-control"] == "no-store"
        assert "strict-transport-security" not in found
    assert "strict-transport-security" in (await get("localhost", uses_tls=True)).headers


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:8082", "[::1]:8082", "[::1]"])
async def test_a_host_of_the_dashboard(host: str) -> None:
    assert (await get(host)).text == "hello"


@pytest.mark.parametrize(
    "host", ["evil.example.org", "localhost.evil.org", "", "127.0.0.1", "[::2]", "x" * 300]
)
async def test_another_host_is_refused(host: str) -> None:
    response = await get(host)
    assert response.status_code == 421
    assert "allowedHosts" in response.text
    assert "hello" not in response.text


def test_host_names() -> None:
    assert host_name("A.b:1") == "a.b"
    assert host_name("[FE80::1]:1") == "fe80::1"


@pytest.mark.parametrize(
    ("headers", "same"),
    [
        ({}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
        ({"origin": "http://localhost:8082"}, True),
        ({"origin": "http://localhost:8083"}, False),
        ({"origin": "null"}, False),
    ],
)
def test_same_site(headers: dict[str, str], same: bool) -> None:
    assert is_same_site(Headers({"host": "localhost:8082", **headers})) is same
