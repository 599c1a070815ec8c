import os
import socket
from pathlib import Path

from epochmq.runtime.listen import describe_holder


def test_the_holder_of_a_real_port_is_found() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        holder = describe_holder(sock.getsockname()[1])
        assert holder.startswith(f"process {os.getpid()} (")


def test_a_free_port_has_none() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        assert describe_holder(sock.getsockname()[1]) == ""


def fake_proc(root: Path) -> str:
    (root / "net").mkdir()
    head = "  sl  local_address rem_address   st ...\n"
    row = "   0: 0100007F:2694 00000000:0000 {} 0:0 00:0 0 0 0 {} 1 x\n"
    (root / "net/tcp").write_text(head + row.format("0A", 55) + "short line\n")
    (root / "net/tcp6").write_text(head + row.format("01", 56))
    return str(root)


def test_a_process_of_another_user_cannot_be_told(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path)
    (tmp_path / "12").mkdir()  # without an fd directory that may be listed
    assert describe_holder(0x2694, proc) == ""


def test_a_process_without_a_name_is_still_named_by_its_number(tmp_path: Path) -> None:
    proc = fake_proc(tmp_path)
    (tmp_path / "12/fd").mkdir(parents=True)
    (tmp_path / "12/fd/0").write_text("not a link")
    (tmp_path / "12/fd/4").symlink_to("socket:[55]")
    assert describe_holder(0x2694, proc) == "process 12 (?)"


def test_without_proc_nothing_can_be_told(tmp_path: Path) -> None:
    assert describe_holder(80, str(tmp_path / "missing")) == ""
    fake_proc(tmp_path)
    assert describe_holder(81, str(tmp_path)) == ""
