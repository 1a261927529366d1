"""The network between hosts, as a user describes it and as a sum over hosts feels it."""

from dataclasses import astuple

import pytest

from phalanx.errors import UsageError
from phalanx.observe.advise.link import Link, parse_link


def test_links_as_users_write_them() -> None:
    assert astuple(parse_link("10gbit,50us")) == pytest.approx((1.25e9, 50e-6))
    assert astuple(parse_link(" 100 Mbit/s , 1.5 ms ")) == pytest.approx((12.5e6, 1.5e-3))


def test_links_as_they_are_shown() -> None:
    assert str(Link(1.25e9, 50e-6)) == "10 Gbit/s, 50 µs"
    assert str(Link(11.8e6, 1.5e-3)) == "94.4 Mbit/s, 1.5 ms"
    assert str(Link(100e3 / 8, 1e-3)) == "100 kbit/s, 1 ms"


@pytest.mark.parametrize(
    "text", ["10gbit", "fast", "10gbit,50", "-1gbit,5us", "0gbit,5us", "", ","]
)
def test_what_is_no_link_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--network "):
        parse_link(text)


def test_a_sum_over_hosts() -> None:
    link = Link(bandwidth=1e6, latency=1e-3)
    assert link.all_sum(1e6, hosts=1) == 0
    assert link.all_sum(1e6, hosts=2) == pytest.approx(1.001)
    assert link.all_sum(1e6, hosts=1024) == pytest.approx(2 * 1023 / 1024 + 20e-3)
    assert link.all_sum(8, hosts=1024) == pytest.approx(10 * (1e-3 + 8e-6))
