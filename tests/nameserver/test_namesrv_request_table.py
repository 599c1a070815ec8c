import pytest
from tests.nameserver.world import Asker

from epochmq.nameserver.namesrv_request_table import TABLE
from epochmq.wire.codes import RequestCode


def test_every_code_of_the_name_server_has_a_handler() -> None:
    served = {100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304}
    served |= {311, 312, 313, 318, 319, 322, 327, 901, 904}
    assert {int(code) for code in TABLE} == served


def test_a_brokers_code_is_not_supported_here() -> None:
    reply = Asker().ask(RequestCode.SEND_MESSAGE)
    assert (reply.code, reply.remark) == (3, " request type 10 not supported")


@pytest.mark.parametrize("code", sorted(TABLE))
def test_no_request_without_header_and_body_does_harm(code: int) -> None:
    asker = Asker()
    asker.register()
    for body in (b"", b"{", b"[]", b"\x78\xda\x00", b'{"queueDatas":7}'):
        reply = asker.ask(code, {}, body)
        assert reply.code in (0, 1, 16, 22)
    assert asker.ask(105, {"topic": "A"}).code == 0
