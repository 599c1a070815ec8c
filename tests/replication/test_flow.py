from epochmq.replication.link import Flow


def test_without_a_limit_anything_goes() -> None:
    flow = Flow(None)
    flow.sent(1 << 40)
    assert flow.allowance(0) is None
    assert flow.next_at_ms(0) is None


def test_a_second_has_so_many_bytes_and_the_next_one_too() -> None:
    flow = Flow(1000)
    assert flow.allowance(5000) == 1000
    flow.sent(999)
    assert flow.allowance(5999) == 1
    flow.sent(5)
    assert flow.allowance(5999) == 0
    assert flow.next_at_ms(5999) == 6000
    assert flow.allowance(6000) == 1000
    assert flow.next_at_ms(6000) is None
