"""Options of the log source: keys in any case, one line that names every fault."""

import json

import pytest

from epochmq.base.errors import UsageError
from epochmq.spark.log_options import LogOptions, names, parse_log_options

LEARNER = {"readFrom": "learner", "nameServer": "h:1"}


def test_keys_come_in_any_case_and_values_are_typed() -> None:
    given = {"PATH": "/a, /b", "fromoffset": "7", "checkCRC": "false", "epoch": "3-5,9"}
    options = parse_log_options(given)
    assert options.places == ["/a", "/b"]
    assert (options.from_offset, options.check_crc) == (7, False)
    assert options.epochs == {3, 4, 5, 9}
    assert options.reports is False
    assert options.column_names is None


def test_a_list_of_directories_comes_from_spark_as_json() -> None:
    options = parse_log_options({"paths": json.dumps(["/a,b", "/c"])})
    assert options.places == ["/a,b", "/c"]


def test_a_learner_needs_a_name_server_and_no_path() -> None:
    options = parse_log_options({"readFrom": "learner", "nameServer": "127.0.0.1:9876"})
    assert isinstance(options, LogOptions)
    assert names(options.brokers) == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "option 'path' is missing"),
        ({"path": "/a", "onCorupt": "skip"}, "unknown option 'onCorupt' .did you mean 'onCorrupt'"),
        ({"path": "/a", "onCorrupt": "maybe"}, "must be one of fail, skip, report"),
        ({"path": "/a", "toOffset": "last"}, "must be a number, confirmed or end"),
        ({"path": "/a", "fromOffset": "9", "toOffset": "8"}, "is below fromOffset 9"),
        ({"path": "/a", "epoch": "5-3"}, "must be as 3 or 3,5 or 3-5"),
        ({"path": "/a", "epoch": "1-9999999"}, "spans too much"),
        ({"path": "/a", "nameServer": "x:1"}, "are for readFrom=learner"),
        ({"path": "/a", "tls.enable": "true"}, "are for readFrom=learner"),
        ({**LEARNER, "tls.enable": "true", "tls.client.trustCertPath": "/none"}, "cannot use the"),
        ({"paths": "/a"}, "must be a JSON list"),
        ({"readFrom": "learner"}, "option 'nameServer' is missing"),
        ({"readFrom": "learner", "nameServer": "nowhere"}, "is not a name server address"),
        ({"readFrom": "learner", "path": "/a"}, "reads over the network"),
        ({**LEARNER, "include": "cut"}, "needs the files"),
        ({**LEARNER, "toOffset": "end"}, "never told more"),
    ],
)
def test_each_fault_is_one_clear_line(given: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        parse_log_options(given)
    assert "\n" not in str(caught.value)


def test_all_faults_come_at_once() -> None:
    with pytest.raises(UsageError) as caught:
        parse_log_options({"include": "none", "checkCrc": "maybe", "splitBytes": "1"})
    assert str(caught.value).count("option '") == 3
