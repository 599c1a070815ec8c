import pytest

from epochmq.base.errors import ConfigError
from epochmq.relay.options import RelayedGroup, load_options

GOOD = {"relayGroups": "broker-a:11911", "namesrvAddr": "127.0.0.1:9876"}


def test_groups_and_their_ports() -> None:
    options = load_options({**GOOD, "relayGroups": " broker-a:11911; a:b:11921 ;"})
    assert options.groups() == [RelayedGroup("broker-a", 11911), RelayedGroup("a:b", 11921)]
    assert options.resend_sends
    assert options.bind_address == "127.0.0.1"


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"namesrvAddr": "n:1"}, "'relayGroups' is missing"),
        ({**GOOD, "relayGroups": "broker-a"}, "write NAME:PORT"),
        ({**GOOD, "relayGroups": ":11911"}, "write NAME:PORT"),
        ({**GOOD, "relayGroups": "a:70000"}, "write NAME:PORT"),
        ({**GOOD, "relayGroups": "a:1;a:2"}, "names group a twice"),
        ({**GOOD, "relayGroups": "a:1;b:1"}, "names port 1 twice"),
        ({**GOOD, "relayGroups": ";".join(f"g{n}:0" for n in range(101))}, "more than 100"),
        ({"relayGroups": "a:1"}, "'namesrvAddr' is missing"),
        ({**GOOD, "namesrvAddr": "somewhere"}, "'namesrvAddr': 'somewhere' is not an address"),
        ({**GOOD, "brokerAddrs": "x"}, "'brokerAddrs': 'x' is not an address"),
        ({**GOOD, "relayGroups": "a:1;b:2", "brokerAddrs": "x:1"}, "one group"),
        ({**GOOD, "holdTimeout": "1"}, "holdTimeout"),
    ],
)
def test_what_is_wrong_is_said(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_options(properties)
