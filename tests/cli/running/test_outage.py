from cli.running.outage import GIVE_UP_SECONDS, Outage


def test_outage_repeats_how_long_it_lasts_and_comes_to_an_end() -> None:
    outage = Outage()
    assert outage.observe(None, 0.0) is None
    assert outage.observe("refused", 5.0) == "refused"
    assert outage.observe("refused", 14.9) == "refused"
    assert outage.observe("refused", 36.0) == (
        "unreachable for 30 s, still trying until 60 s: refused"
    )
    assert not outage.is_over_limit
    outage.observe("refused", 5.0 + GIVE_UP_SECONDS)
    assert outage.is_over_limit


def test_outage_that_ends_counts_anew() -> None:
    outage = Outage()
    outage.observe("refused", 0.0)
    assert outage.observe(None, 59.0) is None
    assert outage.observe("refused", 70.0) == "refused"
    assert not outage.is_over_limit
