"""`epochmq dev` as a newcomer meets it: twice, detached, killed, with a port taken."""

import json
import os
import signal
import socket
import urllib.request
from pathlib import Path

from tests.admin.shell import Shell, read_until, shell_in
from tests.compat.peers.process import wait_until

from epochmq.admin.local import config_files
from epochmq.admin.local.config_files import choose_anywhere


def settle(shell: Shell) -> None:
    """Free ports for this test, as a user would write them; the usual ones may be taken."""
    (shell.directory / ".epochmq").mkdir()
    config_files.write_missing(shell.directory / ".epochmq", choose_anywhere())


def test_a_moved_cluster_starts_with_its_data(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    with shell_in(old) as shell:
        settle(shell)
        shell.run("dev", "-d")
        shell.run("produce", "moved", stdin=b"message\n")
        shell.run("dev", "stop")
    old.rename(new)
    with shell_in(new) as shell:
        code, _, said = shell.run("dev", "-d")
        assert (code, f"this cluster was in {old}/.epochmq" in said) == (0, True)
        assert "moved" in shell.run("topic", "list")[1]
        assert not old.exists()


def test_detached_twice_status_and_stop(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        settle(shell)
        assert shell.run("dev", "status")[0] == 3
        code, out, said = shell.run("dev", "--detach")
        assert code == 0
        assert "broker       127.0.0.1:" in out
        assert "started in .epochmq" in said
        code, out, said = shell.run("dev")
        assert code == 0
        assert "it runs already" in said
        code, out, _ = shell.run("dev", "status", "-o", "json")
        assert code == 0
        rows = [json.loads(line) for line in out.splitlines()]
        assert [row["server"] for row in rows] == ["namesrv", "broker", "dashboard"]
        assert {row["state"] for row in rows} == {"running"}
        pages = urllib.request.urlopen(f"http://{rows[2]['address']}/", timeout=10)
        assert b"EpochMQ" in pages.read()
        os.kill(rows[1]["pid"], signal.SIGKILL)
        assert shell.run("dev", "status")[0] == 4
        assert shell.run("dev", "stop")[2] == "stopped namesrv and dashboard\n"
        assert shell.run("dev", "stop")[2] == "nothing runs in .epochmq\n"


def test_a_dashboard_that_fails_leaves_the_cluster(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        settle(shell)
        (tmp_path / ".epochmq" / "dashboard.properties").write_text("listenPrt=8090\n")
        code, _, said = shell.run("dev", "--detach")
        assert code == 0
        assert "the dashboard did not start: " in said
        assert "unknown option 'listenPrt'" in said
        assert "; the cluster runs without it\n" in said
        assert shell.run("produce", "t", stdin=b"x\n")[0] == 0
        rows = [
            json.loads(line) for line in shell.run("dev", "status", "-o", "json")[1].split("\n")[:3]
        ]
        assert [row["state"] for row in rows] == ["running", "running", "stopped"]
        code, _, said = shell.run("dev", "--detach", "--dashboard")
        assert (code, "it runs already" in said) == (4, True)
        (tmp_path / ".epochmq" / "dashboard.properties").unlink()
        assert shell.run("dev", "--detach", "--dashboard")[0] == 0
        assert shell.run("dev", "status")[0] == 0


def test_a_line_there_and_back(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        settle(shell)
        shell.run("dev", "--detach")
        code, out, said = shell.run("produce", "greetings", stdin=b"hello\n")
        assert (code, out) == (0, "")
        assert said.startswith("sent 1 messages")
        ended = shell.run("consume", "greetings", "--from", "first", "--exit")
        assert ended == (0, "hello\n", "")


def test_ctrl_c_stops_both_and_kill_nine_does_no_harm(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        settle(shell)
        killed = shell.start("dev")
        read_until(killed, "consume greetings")
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert "it runs already" in shell.run("dev", "-d")[2]
        shell.run("dev", "stop")
        running = shell.start("dev")
        read_until(running, "consume greetings")
        running.send_signal(signal.SIGINT)
        assert running.wait(30) == 0
        assert shell.run("dev", "status")[0] == 3


def test_a_taken_port_moves_the_block_and_names_the_holder(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell, socket.socket() as holder:
        settle(shell)
        ports = config_files.read_ports(tmp_path / ".epochmq")
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", ports.broker))
        holder.listen()
        code, out, said = shell.run("dev", "--detach")
        assert code == 0
        assert f"port {ports.broker} is taken by process {os.getpid()}" in said
        moved = config_files.read_ports(tmp_path / ".epochmq")
        assert moved.broker != ports.broker
        assert f"127.0.0.1:{moved.broker}" in out
        assert shell.run("produce", "t", stdin=b"x\n")[0] == 0  # finds it all the same


def test_a_slave_stands_in_and_top_shows_it(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        (tmp_path / ".epochmq").mkdir()
        config_files.write_missing(tmp_path / ".epochmq", choose_anywhere(2, acting_groups=2))
        code, out, said = shell.run("dev", "-d", "--acting-master", "--groups", "2")
        assert code == 0, said
        assert len(next(line for line in out.splitlines() if "brokers" in line).split()) == 5
        assert shell.run("dev", "-d", "--replicas", "3")[0] == 1

        def roles() -> dict[tuple[str, int], str]:
            out = shell.run("top", "--once", "-o", "json")[1]
            rows = [json.loads(line) for line in out.splitlines()]
            return {(row["group"], row["id"]): row["role"] for row in rows}

        pair = {0: "master", 1: "slave"}
        whole = {(f"broker-{g}", n): role for g in "ab" for n, role in pair.items()}
        assert roles() == whole
        assert "killed broker-a-0" in shell.run("chaos", "kill", "master")[2]
        gone = {**whole, ("broker-a", 1): "acting master"}
        del gone["broker-a", 0]
        wait_until(lambda: roles() == gone, 30, "the slave acts as master")
        shell.run("chaos", "start")
        wait_until(lambda: roles() == whole, 30, "the master is back")


def test_what_does_not_go_together(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        for args in (("--groups", "2"), ("--acting-master", "--replicas", "1")):
            code, _, said = shell.run("dev", *args)
            assert (code, "--acting-master" in said) == (2, True)


def test_a_secure_cluster_serves_signed_requests_over_tls_only(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        code, out, said = shell.run("dev", "-d", "--secure")
        assert code == 0, said
        assert said.count("password ") == 1
        directory = tmp_path / ".epochmq"
        authority = {"EPOCHMQ_TLS_CA": str(directory / "certs" / "ca.pem")}
        stranger = {"EPOCHMQ_ACCESS_KEY": "x", "EPOCHMQ_SECRET_KEY": "y"}
        admin = {**authority, "EPOCHMQ_CREDENTIALS": str(directory / "admin.credentials")}
        assert all(f"export {name}={value}" in out for name, value in admin.items())
        where = json.loads((directory / "cluster.json").read_text())["namesrv"]
        assert shell.run("topic", "create", "t", "-n", where)[0] == 3
        code, _, said = shell.run("topic", "create", "t", env=authority)
        assert (code, "the request is not signed" in said) == (1, True)
        assert shell.run("topic", "create", "t", env=admin)[0] == 0
        code, _, said = shell.run("produce", "t", stdin=b"hello\n", env=admin)
        assert (code, said.startswith("sent 1 messages")) == (0, True)
        # In this directory commands use the files of the cluster, unless they are given others.
        assert shell.run("topic", "list")[0] == 0
        assert shell.run("topic", "list", env={**authority, **stranger})[0] == 1
        assert shell.run("topic", "list", env=stranger)[0] == 3
        assert "killed broker" in shell.run("chaos", "kill", "broker")[2]
        shell.run("dev", "stop")
        code, _, said = shell.run("dev", "-d")
        assert (code, "password" in said) == (0, False)
        assert shell.run("topic", "list", env=admin)[0] == 0


def test_an_open_cluster_does_not_become_a_secure_one(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        settle(shell)
        code, _, said = shell.run("dev", "-d", "--secure")
        assert (code, "holds a cluster that is not secure" in said) == (1, True)
