"""Ports of test workers: each has its own, and gives none out twice."""

import socket

import pytest

from . import ports


def test_workers_share_no_port() -> None:
    shares = [range(*ports.share(f"gw{n}")) for n in range(4)]
    taken = [port for share in shares for port in share]
    assert len(taken) == len(set(taken))
    assert min(taken) >= 1024
    assert all(len(share) > 1_000 for share in shares)
    assert ports.share("") == ports.share("gw0"), "without workers"
    assert ports.share("gw5") == ports.share("gw1"), "there are not so many"


def test_what_is_given_out_is_of_the_workers_share_and_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTEST_XDIST_WORKER", "gw3")
    first, end = ports.share("gw3")
    given = [ports.free_broker_port() + distance for distance in (-2, -1, 0, 1)]
    given.append(ports.free_port())
    assert len(set(given)) == 5
    for port in given:
        assert first <= port < end
        with socket.socket() as mine:
            mine.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            mine.bind(("127.0.0.1", port))
