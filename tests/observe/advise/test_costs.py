"""The model of costs on made-up machines that follow it: what goes in comes out."""

import json
from dataclasses import asdict, replace
from itertools import pairwise
from typing import Any

import pytest

from phalanx.observe.advise.advice import COUNTS
from phalanx.observe.advise.costs import largest
from phalanx.observe.advise.curve import curve
from phalanx.observe.advise.fitting import band, fit
from phalanx.observe.advise.link import Link
from phalanx.observe.advise.measurements import Measurements, Pace
from tests.observe.advise.made_up import NO_TIME, made_up, pace

ALL_AT_ONCE: dict[str, Any] = {
    "fixed": 4e-3,
    "a_sample": 1e-3,
    "update": 6e-3,
    "exchange": 3e-3,
    "imbalance": 0.1,
    "contention": 1.2,
    "extra": 5e-4,
}


def test_coefficients_are_found_again() -> None:
    costs = fit(made_up(**ALL_AT_ONCE), NO_TIME)
    assert costs.compute(0) == pytest.approx(4e-3)
    assert costs.compute(64) - costs.compute(63) == pytest.approx(1e-3)
    assert costs.compute(1000) == pytest.approx(1.004)
    assert (costs.update, costs.update_share) == pytest.approx((6e-3, 3e-3))
    assert (costs.contention, costs.extra, costs.imbalance) == pytest.approx((1.2, 5e-4, 0.1))
    assert costs.exchange(1 << 20) == pytest.approx(3e-3)


@pytest.mark.parametrize("ranks", [2, 4])
def test_what_was_measured_is_predicted(ranks: int) -> None:
    found = made_up(**ALL_AT_ONCE, ranks=ranks)
    costs = fit(found, NO_TIME)
    assert costs.step(1).seconds == pytest.approx(found.alone[0].seconds)
    assert costs.step(ranks).seconds == pytest.approx(found.together.pace.seconds)


def test_hosts_are_predicted_as_measured_and_their_link_is_calibrated() -> None:
    link = Link(bandwidth=1e8, latency=1e-4)
    found = made_up(exchange=0.03, hosts=2, link=link, gradient=1_000_000)
    costs = fit(found, link)
    assert costs.step(2).seconds == pytest.approx(found.together.pace.seconds)
    assert costs.over_link == pytest.approx(0.03 / link.all_sum(1_000_000, hosts=2))


@pytest.mark.parametrize("ranks", COUNTS)
def test_efficiencies_multiply_up(ranks: int) -> None:
    costs = fit(made_up(**ALL_AT_ONCE), Link(1e9, 5e-5))
    factors = costs.efficiency(ranks)
    product = factors.load_balance * factors.communication * factors.computation
    assert product == pytest.approx(factors.whole)
    assert factors.parallel == pytest.approx(factors.load_balance * factors.communication)
    speed_up = costs.step(1).seconds / costs.step(ranks).seconds
    assert factors.whole == pytest.approx(speed_up / ranks)
    assert 0 < factors.load_balance <= 1
    assert 0 < factors.communication <= 1


def test_pure_compute_scales_as_far_as_there_are_samples() -> None:
    costs = fit(made_up(batch=64), NO_TIME)
    assert [costs.efficiency(ranks).whole for ranks in (1, 2, 64)] == pytest.approx([1, 1, 1])
    assert costs.efficiency(128).whole == pytest.approx(0.5)  # every other rank has nothing to do
    assert costs.epoch(64) == pytest.approx(costs.epoch(1) / 64)


def test_ranks_are_used_worse_the_more_they_are() -> None:
    costs = fit(made_up(**ALL_AT_ONCE), Link(1e9, 5e-5))
    used = [costs.efficiency(ranks).whole for ranks in COUNTS]
    assert all(later < before for before, later in pairwise(used))


def test_no_epoch_is_shorter_than_the_exchange_and_the_fixed_part() -> None:
    costs = fit(made_up(fixed=2e-3, exchange=1e-3), Link(1e9, 5e-5))
    assert all(costs.step(ranks).seconds >= 3e-3 for ranks in COUNTS[1:])


def test_a_slower_network_costs_more_and_only_between_hosts() -> None:
    found = made_up(exchange=1e-3)
    fast, slow = fit(found, Link(1e9, 1e-5)), fit(found, Link(1e7, 1e-3))
    assert fast.epoch(2) == slow.epoch(2)
    assert fast.epoch(4) < slow.epoch(4)
    apart = fit(found, Link(1e7, 1e-3), ranks_a_host=1)
    assert apart.epoch(2) > slow.epoch(2)


def test_uneven_parts_and_the_last_batch_count() -> None:
    costs = fit(made_up(batch=64, samples=650), NO_TIME)
    # 64 samples over 3 ranks: 22 for the largest; of the 10 that are left, 4.
    assert costs.epoch(3) == pytest.approx(10 * 22e-3 + 4e-3)
    assert costs.efficiency(3).load_balance == pytest.approx(64 / 66)


def test_the_overhead_of_an_epoch_is_counted_once() -> None:
    found = made_up()
    whole, *others = found.alone
    with_overhead = replace(found, alone=(replace(whole, overhead=0.5), *others))
    assert fit(with_overhead, NO_TIME).epoch(1) == pytest.approx(0.5 + 0.64)


def test_a_batch_that_grows_with_the_ranks() -> None:
    costs = fit(replace(made_up(fixed=4e-3), batch_grows=True), NO_TIME)
    assert (costs.batch_of(1), costs.batch_of(8)) == (32, 256)
    assert costs.efficiency(8).whole == pytest.approx(1)
    assert costs.epoch(10) == pytest.approx(2 * (4e-3 + 32e-3))


def test_steps_between_exchanges_and_passes() -> None:
    costs = fit(made_up(fixed=2e-3, exchange=8e-3), NO_TIME)
    assert replace(costs, every=8).step(2).exchange == pytest.approx(1e-3)
    assert replace(costs, passes=2).step(2).useful == pytest.approx(2 * 2e-3 + 32e-3)


def test_what_goes_on_beside_the_backward_pass_is_not_waited_for() -> None:
    link = Link(bandwidth=1e8, latency=0.0)
    found = replace(made_up(batch=3, gradient=200_000), overlaps=True)  # 1 ms, and 2.7 ms of wire
    assert fit(found, link, ranks_a_host=1).step(3).exchange == pytest.approx(2e-3)
    long = replace(made_up(batch=30, gradient=200_000), overlaps=True)
    assert fit(long, link, ranks_a_host=1).step(3).exchange == pytest.approx(1e-3 / 3)


def test_the_slowest_of_more_ranks_is_slower() -> None:
    assert largest(1) == 0
    assert largest(2) == pytest.approx(0.56, abs=0.03)
    assert largest(10_000) == pytest.approx(3.85, abs=0.05)


def test_curves_go_through_their_points_and_never_fall() -> None:
    found = curve([(4, 3.0), (2, 1.0), (8, 2.0)])
    assert [found(place) for place in (0, 2, 3, 4, 8, 100)] == [0.0, 1.0, 2.0, 3.0, 3.0, 3.0]


def test_the_band_is_as_wide_as_measurements_lie_apart() -> None:
    found = made_up()
    assert band(found, _epoch) == pytest.approx((0.32, 0.32))
    blocks = tuple(0.032 * share for share in (0.9, 1.0, 1.0, 1.1))
    wide = replace(found, together=replace(found.together, pace=Pace(64, (blocks,))))
    least, most = band(wide, _epoch)
    assert (least, most) == pytest.approx((0.9 * 0.32, 1.1 * 0.32))


def _epoch(found: Measurements) -> float:
    return fit(found, NO_TIME).epoch(2)


def test_the_least_disturbed_round_counts() -> None:
    busy, quiet = (0.3, 0.4, 0.2, 0.9), (0.12, 0.1, 0.5, 0.12)
    assert Pace(64, (busy, quiet)).seconds == pytest.approx(0.115)
    assert Pace(64, (busy, quiet)).blocks == (*busy, *quiet)


def test_measurements_survive_json() -> None:
    found = replace(made_up(link=Link(1e9, 1e-5)), all_threads=(2, pace(64, 0.1)))
    assert Measurements.from_json(json.loads(json.dumps(asdict(found)))) == found
