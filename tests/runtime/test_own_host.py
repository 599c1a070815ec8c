"""What is found out about this machine can be used as it is."""

from ipaddress import IPv4Address

import pytest

from epochmq.base.errors import EnvironmentFault
from epochmq.runtime.listen import listen
from epochmq.runtime.own_host import boot_id, free_port, host_address, host_name


def test_the_address_is_one() -> None:
    IPv4Address(host_address())
    assert host_name()


def test_a_free_port_of_an_unknown_name() -> None:
    with pytest.raises(EnvironmentFault, match=r"no\.such\.host\.invalid.* set bindAddress"):
        free_port("no.such.host.invalid")


def test_a_free_port_can_be_taken() -> None:
    sock = listen("127.0.0.1", free_port("127.0.0.1"))
    sock.close()


def test_the_boot_has_a_name_that_stays() -> None:
    assert boot_id() == boot_id()
