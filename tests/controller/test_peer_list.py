"""The controllers of a group, as their option writes them."""

import pytest

from epochmq.base.errors import ConfigError
from epochmq.controller.peer_list import PeerList

THREE = "n0-127.0.0.1:9878;n1-host-a:9879; n2-[::1]:9880;"


def test_the_text_of_rocketmq() -> None:
    peers = PeerList.parse("g", THREE, "n1")
    assert dict(peers.addresses) == {
        "n0": "127.0.0.1:9878",
        "n1": "host-a:9879",
        "n2": "[::1]:9880",
    }
    assert peers.own_address == "host-a:9879"
    assert peers.shown() == "n0:127.0.0.1:9878;n1:host-a:9879;n2:[::1]:9880;"


@pytest.mark.parametrize(
    ("group", "peers", "own", "told"),
    [
        ("", THREE, "n0", "controllerDLegerGroup' is missing"),
        ("g", "", "n0", "controllerDLegerPeers' is missing"),
        ("g", THREE, "n7", "must be one of n0, n1, n2"),
        ("g", "n0:127.0.0.1:1", "n0", "is not a peer"),
        ("g", "n0-127.0.0.1", "n0", "is not a peer"),
        ("g", "n0-h:1;n0-h:2", "n0", "twice"),
        ("g", "n0-h:1;n1-h:1", "n0", "twice"),
        ("g", "-h:1", "", "twice"),
    ],
)
def test_what_is_wrong_is_said(group: str, peers: str, own: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        PeerList.parse(group, peers, own)
