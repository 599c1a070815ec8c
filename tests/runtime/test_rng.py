from epochmq.runtime.rng import RealRng, random_name


def test_numbers_stay_below_the_stop() -> None:
    rng = RealRng()
    assert {rng.randrange(3) for _ in range(200)} == {0, 1, 2}


def test_random_names_differ() -> None:
    assert random_name() != random_name()
