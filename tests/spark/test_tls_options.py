"""What is said about TLS comes to other processes as it was said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.test_tls import CERT, KEY

from epochmq.base.errors import UsageError
from epochmq.spark.connection_options import ConnectionOptions
from epochmq.spark.option_table import reach
from epochmq.spark.options import parse_source
from epochmq.spark.sink_options import parse_sink

PLAIN = {"nameServer": "n:1"}


@given(st.booleans(), st.sampled_from(["", CERT]), st.booleans())
def test_options_say_what_was_chosen(auth: bool, trusted: str, shows: bool) -> None:
    tls = ConnectionOptions(
        tls_enable=True,
        tls_client_auth_server=auth,
        tls_client_trust_cert_path=trusted,
        tls_client_cert_path=CERT if shows else "",
        tls_client_key_path=KEY if shows else "",
    )
    given = reach("n:1", tls)
    assert parse_source({**given, "subscribe": "t"}).tls == tls
    assert parse_sink({**given, "topic": "t"}).tls == tls


def test_plain_connections_need_no_options() -> None:
    assert reach("n:1") == reach("n:1", ConnectionOptions(tls_client_trust_cert_path=CERT)) == PLAIN


def test_a_file_that_cannot_be_used_is_named() -> None:
    tls = ConnectionOptions(tls_enable=True, tls_client_trust_cert_path="/nowhere")
    with pytest.raises(UsageError, match="cannot use the authorities in /nowhere"):
        parse_source({**reach("n:1", tls), "subscribe": "t"})
