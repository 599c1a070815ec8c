"""`epochmq container` as a process, its brokers, and the tool that adds and removes them."""

import signal
from pathlib import Path

from click.testing import CliRunner
from tests.admin.shell import Shell, read_until, shell_in
from tests.compat.peers.ports import free_broker_port, free_port

from epochmq.admin.cli import cli
from epochmq.admin.container_command import IMPORTANT
from epochmq.base.options import describe
from epochmq.broker.config.container_options import ContainerOptions


def container(*args: str) -> tuple[int, str]:
    ended = CliRunner().invoke(cli, ["container", *args])
    return ended.exit_code, ended.output


def test_printing(tmp_path: Path) -> None:
    file = tmp_path / "container.conf"
    file.write_text("listenPort=20811\n")
    code, shown = container("-p", "-c", str(file), "-b", "a:b")
    assert code == 0
    assert {"listenPort=20811", f"brokerConfigDirs={tmp_path}", "brokerConfigPaths=a:b"} <= set(
        shown.replace("\\", "").splitlines()
    )
    code, fewer = container("-m")
    assert code == 0
    assert len(fewer.splitlines()) == len(IMPORTANT)
    assert set(IMPORTANT) <= {row.key for row in describe(ContainerOptions)}
    assert "brokerConfigPaths" in container("--help-options")[1]


def broker_file(directory: Path, name: str, port: int) -> Path:
    path = directory / f"{name}.properties"
    path.write_text(
        f"brokerName={name}\nlistenPort={port}\nstorePathRootDir={directory / name}\n"
        "mappedFileSizeCommitLog=1048576\nmaxMessageSize=65536\n"
    )
    return path


def mqadmin(shell: Shell, *args: str) -> tuple[int, str]:
    code, out, err = shell.run("mqadmin", *args)
    return code, out + err


def test_one_process_and_its_brokers(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        names = f"127.0.0.1:{free_port()}"
        namesrv = shell.start("namesrv", "--set", f"listenPort={names.rpartition(':')[2]}")
        read_until(namesrv, "ready on")
        ports = {name: free_broker_port() for name in "abc"}
        paths = {name: broker_file(tmp_path, name, port) for name, port in ports.items()}
        own = free_port()
        (tmp_path / "container.conf").write_text(
            f"listenPort={own}\nnamesrvAddr={names}\nbrokerConfigPaths={paths['a']}:{paths['b']}\n"
        )
        running = shell.start("container", "-c", "container.conf")
        said = read_until(running, "container ready on")
        assert "with DefaultCluster_a_0, DefaultCluster_b_0" in said
        where = ("-c", f"127.0.0.1:{own}")
        code, text = mqadmin(shell, "addBroker", *where, "-b", str(paths["c"]))
        assert (code, text) == (0, f"add broker to 127.0.0.1:{own} success\n")
        for name in "abc":
            wanted = ("-n", names, "-b", f"127.0.0.1:{ports[name]}", "-t", f"T{name}")
            assert mqadmin(shell, "updateTopic", *wanted)[0] == 0
        code, text = mqadmin(shell, "removeBroker", *where, "-b", "DefaultCluster:a:0")
        assert (code, text) == (0, f"remove broker from 127.0.0.1:{own} success\n")
        assert mqadmin(shell, "removeBroker", *where, "-b", "DefaultCluster:a:0")[0] == 1
        assert mqadmin(shell, "addBroker", *where, "-b", "/etc/passwd")[0] == 1
        listed = mqadmin(shell, "clusterList", "-n", names)[1]
        assert str(ports["b"]) in listed
        assert str(ports["c"]) in listed
        assert str(ports["a"]) not in listed
        running.send_signal(signal.SIGTERM)
        assert running.wait(20) == 0
        assert not list(tmp_path.glob("*/abort"))


def test_faults_are_one_line(tmp_path: Path) -> None:
    with shell_in(tmp_path) as shell:
        for args, code, said in (
            (("--set", "brokerName=x"), 2, "unknown option 'brokerName'"),
            (("-b", "/none", "--set", "listenPort=0"), 2, "cannot read /none"),
        ):
            ended = shell.run("container", *args)
            assert ended[0] == code
            assert said in ended[2].splitlines()[-1]
