"""Addresses as text and bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epochmq.model import host
from epochmq.model.host import BadAddress, host_of, is_loopback

_ips = st.ip_addresses().map(str)
_ports = st.integers(0, 65535)


def test_golden_bytes() -> None:
    assert host.pack("127.0.0.1", 10911).hex() == "7f00000100002a9f"
    assert host.unpack(bytes.fromhex("0a00000200009c40")) == ("10.0.0.2", 40000)


@given(_ips, _ports)
def test_packed_and_formatted_addresses_come_back(ip: str, port: int) -> None:
    raw = host.pack(ip, port)
    assert len(raw) == (host.V6_SIZE if ":" in ip else host.V4_SIZE)
    assert host.unpack(raw) == (ip, port)
    assert host.parse_addr(host.format_addr(ip, port)) == (ip, port)


def test_brackets_around_an_ipv6_are_fine() -> None:
    assert host.pack("[::1]", 1) == host.pack("::1", 1)
    assert host.parse_addr("::1:9876") == ("::1", 9876)


def test_names_are_parsed_but_not_packed() -> None:
    assert host.parse_addr(" broker-a:10911 ") == ("broker-a", 10911)
    with pytest.raises(BadAddress, match="resolve"):
        host.pack("broker-a", 10911)


@pytest.mark.parametrize("port", [-1, 65536])
def test_ports_are_16_bits(port: int) -> None:
    with pytest.raises(BadAddress, match="65535"):
        host.pack("127.0.0.1", port)


@pytest.mark.parametrize("ip", ["", "1.2.3", "1.2.3.256", "::g", "1.2.3.4.5"])
def test_what_is_no_ip_is_not_packed(ip: str) -> None:
    with pytest.raises(BadAddress):
        host.pack(ip, 1)


@pytest.mark.parametrize("size", [0, 7, 9, 19, 21])
def test_only_8_or_20_bytes_are_an_address(size: int) -> None:
    with pytest.raises(BadAddress, match="8 or 20"):
        host.unpack(bytes(size))


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":80", "host:port", "host:65536", "h:" + "9" * 5000, "h:²"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(BadAddress, match="host:port"):
        host.parse_addr(text)


@pytest.mark.parametrize(
    ("address", "answer"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("10.1", False)],
)
def test_is_loopback(address: str, answer: bool) -> None:
    assert is_loopback(address) is answer


@pytest.mark.parametrize(
    ("address", "host"),
    [("10.0.0.7:9876", "10.0.0.7"), ("[::1]:10911", "::1"), ("broker-a:1", "broker-a"), ("", "")],
)
def test_host_of(address: str, host: str) -> None:
    assert host_of(address) == host
