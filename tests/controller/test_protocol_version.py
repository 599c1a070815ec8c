"""Telling the generations of the protocol apart."""

import pytest

from epochmq.controller.machine import Refusal
from epochmq.controller.protocol_version import (
    Failure,
    ProtocolVersion,
    alter_number,
    number,
    protocol_version_of,
)
from epochmq.wire.command import Command, request

G1, G2 = ProtocolVersion.G1, ProtocolVersion.G2


def asked(code: int, version: int, fields: str, language: str = "JAVA") -> Command:
    command = request(code, dict.fromkeys(fields.split(), "1"))
    command.version, command.language = version, language
    return command


@pytest.mark.parametrize(
    ("code", "version", "fields", "expected"),
    [
        (1001, 413, "brokerName masterAddress masterEpoch", G1),
        (1001, 479, "brokerName masterBrokerId masterEpoch invokeTime", G2),
        (1002, 413, "clusterName brokerName brokerAddress", G1),
        (1002, 479, "clusterName brokerName brokerId designateElect invokeTime", G2),
        (1002, 479, "brokerName", G2),
        (1003, 413, "clusterName brokerName brokerAddress epoch maxOffset", G1),
        (1003, 479, "clusterName brokerName brokerId brokerAddress invokeTime", G2),
        (1004, 413, "brokerName brokerAddress", G1),
        (1004, 479, "brokerName", G2),
        (904, 413, "clusterName brokerAddr brokerName epoch maxOffset confirmOffset", G1),
        (904, 433, "clusterName brokerAddr brokerName brokerId epoch", G1),
        (904, 435, "clusterName brokerAddr brokerName brokerId epoch", G2),
        (904, 479, "clusterName brokerAddr brokerName brokerId epoch", G2),
        (1011, 413, "brokerName brokerAddress isCleanLivingBroker", G1),
        (1011, 479, "brokerName brokerControllerIdsToClean", G2),
        (1012, 479, "clusterName brokerName", G2),
    ],
)
def test_each_request_tells_its_generation(
    code: int, version: int, fields: str, expected: ProtocolVersion
) -> None:
    assert protocol_version_of(asked(code, version, fields)) is expected


def test_the_version_counts_for_java_alone() -> None:
    """Ours shows 5.0's version, for clients' sake, and has numbers all the same."""
    assert protocol_version_of(asked(904, 413, "brokerId", "PYTHON")) is G2


def test_the_codes_that_collide() -> None:
    assert number(G1, Failure.ALTER) == 2010
    assert number(G2, Failure.ALTER) == 2013
    assert number(G1, Failure.REGISTER) == 2012
    assert number(G2, Failure.UNREGISTERED) == 2010
    assert number(G1, Failure.STILL_MASTER) == number(G2, Failure.STILL_MASTER) == 2011
    assert number(G1, Failure.ELECT) == 2004
    assert number(G2, Failure.ELECT) == 2012


@pytest.mark.parametrize(
    ("refusal", "old", "new"),
    [
        (Refusal.UNKNOWN_GROUP, 2010, 2013),
        (Refusal.SAME_SET, 2010, 2013),
        (Refusal.WITHOUT_MASTER, 2010, 2013),
        (Refusal.NOT_MASTER, 2002, 2002),
        (Refusal.OTHER_EPOCH, 2000, 2000),
        (Refusal.OTHER_SET_EPOCH, 2001, 2001),
        (Refusal.UNKNOWN_REPLICA, 2003, 2003),
        (Refusal.LEARNER, 2003, 2003),
    ],
)
def test_why_an_alteration_is_refused(refusal: Refusal, old: int, new: int) -> None:
    assert alter_number(G1, refusal) == old
    assert alter_number(G2, refusal) == new
