"""`epochmq dashboard` as a process: events, the live tail, ports, directories, its end."""

import json
import queue
import signal
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from tests.admin.shell import Shell, shell_in
from tests.admin.world import TOPIC, World

from epochmq.admin.dashboard.dashboard_server import own_credentials
from epochmq.admin.local.config_files import choose_anywhere
from epochmq.admin.shared.certificate_files import AUTHORITY, make_files
from epochmq.auth.credentials import Credentials, outgoing_credentials

WITHIN_S = 20.0


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with shell_in(tmp_path) as opened:
        yield opened


def started(shell: Shell, *args: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start a dashboard and return it with its address, which its log names."""
    child = shell.start("dashboard", *args)
    assert child.stderr is not None
    for line in child.stderr:
        if b"dashboard at " in line:
            return child, line.split(b"dashboard at ")[1].decode().strip()
    raise AssertionError(f"it ended with {child.wait()}")


@contextmanager
def events(address: str, path: str) -> Iterator["queue.Queue[dict[str, object]]"]:
    """The rows of a stream, as a browser receives them."""
    rows: queue.Queue[dict[str, object]] = queue.Queue()
    with httpx.Client(base_url=address, timeout=WITHIN_S) as http:
        name = http.get("/api/session").json()["clusters"][0]["name"]
        with http.stream("GET", f"/api/c/{name}/{path}") as response:
            assert response.headers["content-type"].startswith("text/event-stream")

            def read() -> None:
                try:
                    for line in response.iter_lines():
                        if line.startswith("data: "):
                            rows.put(json.loads(line.removeprefix("data: ")))
                except httpx.HTTPError:
                    pass  # the end of the block

            thread = threading.Thread(target=read)
            thread.start()
            try:
                yield rows
            finally:
                response.close()
                thread.join(WITHIN_S)


def test_the_state_comes_as_events(shell: Shell, world: World) -> None:
    child, address = started(shell, "-n", world.cluster.namesrv_addr, "--port", "0")
    with events(address, "events") as rows:
        first = rows.get(timeout=WITHIN_S)
        while not first["groups"]:
            first = rows.get(timeout=WITHIN_S)
        assert "samples" in rows.get(timeout=WITHIN_S)
        child.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert child.wait(WITHIN_S) == 0
        assert time.monotonic() - began < 10  # an open stream does not hold it


def test_the_live_tail_shows_new_messages_with_a_filter(shell: Shell, world: World) -> None:
    _, address = started(shell, "-n", world.cluster.namesrv_addr, "--port", "0")
    with events(address, f"tail?topic={TOPIC}&filter=wanted") as rows:
        assert rows.get(timeout=WITHIN_S) == {"messages": [], "left_out": 0}
        for tag in ("other", "wanted"):
            args = ("produce", TOPIC, "--tags", tag, "-n", world.cluster.namesrv_addr)
            assert shell.run(*args, stdin=f"{tag} body\n".encode())[0] == 0
        found = rows.get(timeout=WITHIN_S)["messages"]
        assert isinstance(found, list)
        assert [each["body"] for each in found] == ["wanted body"]


def test_a_tail_of_a_topic_that_does_not_exist_is_told(shell: Shell, world: World) -> None:
    _, address = started(shell, "-n", world.cluster.namesrv_addr, "--port", "0")
    with events(address, "tail?topic=nothing-here") as rows:
        assert "nothing-here" in str(rows.get(timeout=WITHIN_S)["error"])


def test_the_pages_are_served_while_no_cluster_answers(shell: Shell) -> None:
    nowhere = f"127.0.0.1:{choose_anywhere().namesrv}"
    _, address = started(shell, "-n", nowhere, "--port", "0")
    with httpx.Client(base_url=address, timeout=WITHIN_S) as http:
        assert http.get("/").status_code == 200
        (cluster,) = http.get("/api/session").json()["clusters"]
        assert cluster["login_required"] is None
        response = http.get(f"/api/c/{cluster['name']}/topics")
        assert response.status_code == 503
        assert "has not answered" in response.json()["error"]


def test_a_second_dashboard_is_told_why_it_does_not_start(shell: Shell, world: World) -> None:
    namesrv = world.cluster.namesrv_addr
    _, address = started(shell, "-n", namesrv, "--port", "0")
    code, _, err = shell.run("dashboard", "-n", namesrv, "--port", "0")
    assert code == 1
    assert "another dashboard uses" in err
    assert "dataDir" in err
    port = address.rstrip("/").rpartition(":")[2]
    code, _, err = shell.run(
        "dashboard", "-n", namesrv, "--port", port, "--set", f"dataDir={shell.directory / 'two'}"
    )
    assert code == 1
    assert port in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("--set", "clusters=x"), "is not a cluster"),
        (("--set", "bindAddress=0.0.0.0", "-n", "h:1"), "plain text"),
        (("--set", "clustrs=x=h:1"), "clustrs"),
        (("-n", "nonsense"), "namesrvAddr"),
        (
            ("-n", "h:1", "--set", "certPath=a.pem", "--set", "keyPath=b.pem", "--port", "0"),
            "a.pem",
        ),
        (("-n", "h:1", "--set", "dataDir=/proc/none", "--port", "0"), "dataDir"),
    ],
)
def test_wrong_options_are_told_in_a_line(shell: Shell, args: tuple[str, ...], words: str) -> None:
    code, _, err = shell.run("dashboard", *args)
    assert code in (1, 2)
    assert words in err
    assert "Traceback" not in err


def test_pages_by_tls(shell: Shell, world: World) -> None:
    certs = shell.directory / "certs"
    make_files(certs, "dashboard", ("127.0.0.1",), 3)
    paths = {"certPath": certs / "dashboard.pem", "keyPath": certs / "dashboard.key"}
    settings = [f"--set={name}={path}" for name, path in paths.items()]
    _, address = started(shell, "-n", world.cluster.namesrv_addr, "--port", "0", *settings)
    assert address.startswith("https://")
    trust = ssl.create_default_context(cafile=str(certs / f"{AUTHORITY}.pem"))
    with httpx.Client(base_url=address, timeout=WITHIN_S, verify=trust) as http:
        found = http.get("/api/session")
    assert "Secure" in found.headers["set-cookie"]
    assert "HttpOnly" in found.headers["set-cookie"]
    assert "strict-transport-security" in found.headers


def test_options_are_explained(shell: Shell) -> None:
    assert "allowedHosts" in shell.run("dashboard", "--help-options")[1]
    code, out, _ = shell.run("dashboard", "-n", "h:1", "-m")
    assert code == 0
    assert "namesrvAddr=h\\:1" in out or "namesrvAddr=h:1" in out


def test_the_own_user_is_hidden_from_connections_of_visitors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("EPOCHMQ_ACCESS_KEY", "a")
    monkeypatch.setenv("EPOCHMQ_SECRET_KEY", "b")
    before = outgoing_credentials.set(None)
    try:
        assert own_credentials() == Credentials("a", "b")
        assert own_credentials() is None
        outgoing_credentials.set(Credentials("c", "d"))
        assert own_credentials() == Credentials("c", "d")
        assert outgoing_credentials.get() is None
    finally:
        outgoing_credentials.reset(before)
