"""What made-up machines get told: the number of ranks, what limits them, what would help."""

from dataclasses import replace

import pytest

from phalanx.observe.advise.advice import Advice, advise
from phalanx.observe.advise.link import Link
from phalanx.observe.advise.measurements import Measurements, Size
from phalanx.observe.advise.thresholds import crossing
from phalanx.observe.advise.verdict import duration, headline, sentences
from tests.observe.advise.made_up import NO_TIME, made_up, pace

PURE_COMPUTE = made_up(a_sample=1e-3, batch=1024, samples=10_240)
PURE_EXCHANGE = made_up(a_sample=1e-6, exchange=5e-3)
ETHERNET = Link(1.25e9, 5e-5)


def told(found: Measurements, advice: Advice) -> str:
    return "\n".join([headline(advice), *sentences(found, advice, epochs=1)])


def test_pure_compute_is_worth_every_rank() -> None:
    advice = advise(PURE_COMPUTE, NO_TIME, assumed=False)
    assert advice.use == advice.good_ranks == 1024
    assert advice.row(2).speed_up == pytest.approx(2)
    assert advice.row(2).measured
    assert not advice.row(4).measured
    assert headline(advice).startswith("Use 1,024 ranks: an epoch takes 10 ms (10 ms to 10 ms)")


def test_where_nobody_knows_the_network_only_ranks_at_hand_are_advised() -> None:
    advice = advise(PURE_COMPUTE, ETHERNET, assumed=True)
    assert advice.use == 2
    assert "10 Gbit/s, 50 µs between them (assumed: say --network)" in told(PURE_COMPUTE, advice)


def test_pure_exchange_is_best_left_on_one_rank() -> None:
    advice = advise(PURE_EXCHANGE, ETHERNET, assumed=True)
    assert (advice.use, advice.good_ranks, advice.about) == (1, 1, 2)
    assert advice.limit == "exchange"
    text = told(PURE_EXCHANGE, advice)
    assert text.startswith("Use 1 rank: an epoch takes 640 µs")
    assert "What limits 2 ranks is the exchange" in text
    assert "communication efficiency 0.01 = parallel efficiency 0.01" in text
    assert "Rows of several hosts assume 10 Gbit/s, 50 µs between them: say --network." in text


def test_the_batch_from_which_ranks_pay_off() -> None:
    """8 ms + 1 ms a sample alone, on two the same with half the samples and 1.9 ms more: 80 %
    when (8 + b) = 1.6 (8 + b / 2 + 1.9), which is b = 39.2, and an odd batch is cut unevenly."""
    found = made_up(fixed=8e-3, exchange=1.9e-3, batch=16)
    advice = advise(found, ETHERNET, assumed=True)
    assert advice.batch_for == 40
    assert "from a batch of 40 samples on; here it has 16" in told(found, advice)


def test_no_batch_makes_up_for_what_grows_with_it() -> None:
    found = made_up(contention=1.5)
    advice = advise(found, ETHERNET, assumed=True)
    assert (advice.limit, advice.batch_for, advice.parameters_for) == ("compute", None, None)
    assert "No batch is large enough for 2 ranks to reach 80%" in told(found, advice)


def test_the_depth_from_which_ranks_pay_off() -> None:
    """16 ms alone, on two 8 ms and 8 ms of exchange: 80 % when 16 d = 1.6 (8 d + 8), at 4 times."""
    found = made_up(a_sample=1e-3, batch=16, exchange=8e-3)
    advice = advise(found, ETHERNET, assumed=True)
    assert advice.parameters_for == pytest.approx(4 * found.parameters, rel=0.1)
    assert "in a network as deep as that takes" in told(found, advice)


def test_the_width_from_which_ranks_pay_off() -> None:
    """The same for networks that were measured in several widths."""
    sizes = tuple(
        Size(f"{width}", width * 1000, 4000 * width, pace(16, w * 16e-3), pace(8, w * 8e-3), 0.0)
        for width in (1, 2, 4, 8)
        if (w := width / 1)
    )
    found = replace(made_up(a_sample=1e-3, batch=16, exchange=8e-3), sizes=sizes)
    advice = advise(found, ETHERNET, assumed=True)
    assert advice.parameters_for == pytest.approx(4000)
    assert "about 4,000 parameters on, in a network as wide as that takes" in told(found, advice)


def test_where_a_curve_reaches_a_level_for_good() -> None:
    assert crossing([(1, 0.9), (10, 0.1), (100, 0.5)], 0.3) == pytest.approx(10**1.5)
    assert crossing([(1, 0.9), (10, 0.1)], 0.3) is None
    assert crossing([(1, 0.5), (10, 0.9)], 0.3) == 1
    assert crossing([], 0.3) is None


def test_imbalance_is_called_by_its_name() -> None:
    assert advise(made_up(imbalance=0.6), ETHERNET, assumed=True).limit == "imbalance"


def test_what_would_help() -> None:
    found = made_up(fixed=1e-4, exchange=20e-3, samples=6400)
    advice = advise(found, ETHERNET, assumed=True)
    by_flags = {one.flags: one for one in advice.helps}
    larger = by_flags["--batch-size 128"]
    assert larger.seconds == pytest.approx(50 * (1e-4 + 64e-3 + 20e-3))
    assert larger.saves == pytest.approx(1 - 84.1 / (2 * 52.1))
    in_passes = by_flags["--batch-size 128 --accumulate 2"]
    assert in_passes.seconds == pytest.approx(50 * (2e-4 + 64e-3 + 20e-3))
    assert by_flags["--strategy local --every 8"].saves > larger.saves
    assert "--strategy allreduce --compress bf16" not in by_flags  # nothing goes over a network


def test_half_the_bytes_help_where_the_network_is_the_limit() -> None:
    slow = Link(1e6, 1e-4)
    advice = advise(made_up(hosts=2, exchange=1.05, link=slow), slow, assumed=False)
    by_flags = {one.flags: one for one in advice.helps}
    assert by_flags["--strategy allreduce --compress bf16"].saves > 0.4
    assert not any(one.saves < 0.03 for one in advice.helps)


def test_one_rank_with_all_cores_may_be_best() -> None:
    found = replace(made_up(exchange=0.03), all_threads=(2, pace(64, 0.04)))
    advice = advise(found, ETHERNET, assumed=True)
    assert (advice.use, advice.threads) == (1, 2)
    assert headline(advice) == "Use 1 rank with --threads 2: an epoch takes 400 ms."
    assert "1 rank with --threads 2" not in "".join(sentences(found, advice, epochs=1))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3.21e-5, "32.1 µs"), (0.5, "500 ms"), (99, "99 s"), (125, "2 min 5 s"), (7200, "2 h 0 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text
