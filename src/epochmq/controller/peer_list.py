"""The controllers of one group by id, in the format of `controllerDLegerPeers`."""

from collections.abc import Mapping
from dataclasses import dataclass

from epochmq.base.errors import ConfigError
from epochmq.model.host import BadAddress, format_addr, parse_addr

_EXAMPLE = "write it as n0-host:port;n1-host:port;n2-host:port"


@dataclass(frozen=True)
class PeerList:
    """The controllers of one group; `addresses` by id, in the given order."""

    group: str
    self_id: str
    addresses: Mapping[str, str]

    @classmethod
    def parse(cls, group: str, peers: str, self_id: str) -> "PeerList":
        """Parse the three keys. Raises `ConfigError` with every fault."""
        problems: list[str] = []
        addresses: dict[str, str] = {}
        for part in filter(None, (text.strip() for text in peers.split(";"))):
            number, _, address = part.partition("-")
            try:
                address = format_addr(*parse_addr(address))
            except BadAddress:
                problems.append(
                    f"option 'controllerDLegerPeers': '{part}' is not a peer; {_EXAMPLE}"
                )
                continue
            if number in addresses or address in addresses.values() or not number:
                problems.append(f"option 'controllerDLegerPeers' names '{part}' twice")
            addresses[number] = address
        if not group.strip():
            problems.append("option 'controllerDLegerGroup' is missing: name the group")
        if not addresses and not problems:
            problems.append(f"option 'controllerDLegerPeers' is missing: {_EXAMPLE}")
        if addresses and self_id not in addresses:
            ids = ", ".join(addresses)
            problems.append(f"option 'controllerDLegerSelfId' must be one of {ids}")
        if problems:
            raise ConfigError(problems)
        return cls(group, self_id, addresses)

    @property
    def own_address(self) -> str:
        """The address of this controller."""
        return self.addresses[self.self_id]

    def shown(self) -> str:
        """Return the list in DLedger's form: `n0:host:port;n1:host:port;`."""
        return "".join(f"{number}:{address};" for number, address in self.addresses.items())
