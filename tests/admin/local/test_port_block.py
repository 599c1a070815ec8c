"""Blocks of ports, moved as a whole."""

import os
import socket

import pytest

from epochmq.admin.local import config_files
from epochmq.admin.local.config_files import PortBlock, choose, choose_anywhere, is_free
from epochmq.base.errors import PortInUse


def test_a_free_block_is_taken_as_it_is() -> None:
    wanted = choose_anywhere()
    assert choose(wanted) == config_files.PortChoice(wanted)


def test_one_taken_port_moves_all() -> None:
    wanted = choose_anywhere()
    with socket.socket() as holder:
        # As `is_free` and servers do: ended connections of an earlier server do not count.
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", wanted.fast))
        holder.listen()
        assert not is_free(wanted.fast)
        choice = choose(wanted)
    moved = choice.ports.namesrv - wanted.namesrv
    assert moved >= config_files.STEP
    assert choice.ports == wanted.shifted(moved)
    assert f"port {wanted.fast} is taken by process {os.getpid()}" in choice.taken[0]


def test_no_block_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_files, "is_free", lambda port: False)
    with pytest.raises(PortInUse, match="no free block of ports above 9876"):
        choose(PortBlock())
