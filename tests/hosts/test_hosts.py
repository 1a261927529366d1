"""Several hosts give what one rank gives, and the ranks know where they are."""

from typing import Any

import pytest

from tests.hosts.conftest import Layout, Run
from tests.hosts.job import CHECKS


def test_ranks_are_where_mpi_was_told_to_put_them(run: Run) -> None:
    for number, ranks in enumerate(run.layout.hosts()):
        for rank in ranks:
            seen = run.results["place"][rank]
            assert seen["name"] == run.names[number]
            assert seen["host"] == ranks


def test_ranks_are_arranged_by_host(run: Run) -> None:
    expect_places(run.results["place"], run.layout.hosts())


def test_ranks_are_arranged_by_host_whatever_their_numbers(run: Run) -> None:
    count = sum(run.layout.slots)
    hosts = [sorted(count - 1 - rank for rank in ranks) for ranks in run.layout.hosts()]
    # What every rank found comes in the order of its number in the job.
    expect_places(run.results["place backwards"][::-1], sorted(hosts))


def expect_places(seen: list[dict[str, Any]], hosts: list[list[int]]) -> None:
    """What each rank must see when these are the ranks of each host, the first host first."""
    columns = min(map(len, hosts))
    for ranks in hosts:
        for column, rank in enumerate(ranks):
            mine = seen[rank]
            assert mine["host"] == ranks
            assert mine["everyone"] == [one for others in hosts for one in others]
            assert mine["columns"] == columns
            assert mine["has_peers"] == (column < columns)
            expected = [others[column] for others in hosts] if column < columns else [rank]
            assert mine["peers"] == expected


@pytest.mark.parametrize("check", [name for name in CHECKS if name.startswith("close")])
def test_hosts_equal_single(run: Run, check: str) -> None:
    distances, digests = zip(*run.results[check], strict=True)
    assert max(distances) < 1e-5
    assert len(set(digests)) == 1  # or the hosts would drift apart


@pytest.mark.parametrize("check", [name for name in CHECKS if name.startswith("lossy")])
def test_compression_comes_near_single(run: Run, check: str) -> None:
    distances, digests = zip(*run.results[check], strict=True)
    assert 0 < max(distances) < 0.03
    assert len(set(digests)) == 1  # or the hosts would drift apart


@pytest.mark.parametrize("check", [name for name in CHECKS if name.startswith("resumed")])
def test_what_compression_keeps_is_part_of_the_state(run: Run, check: str) -> None:
    assert len({digest for rank in run.results[check] for digest in rank}) == 1


def test_on_one_host_there_is_nothing_to_compress(run: Run) -> None:
    for place, said in zip(run.results["place"], run.results["refusal"], strict=True):
        assert ("sends nothing on one host" in said) == (len(place["host"]) > 1)


@pytest.mark.parametrize("check", [name for name in CHECKS if name.startswith("bits")])
def test_fixed_shards_give_the_same_bits(run: Run, check: str) -> None:
    assert len({digest for rank in run.results[check] for digest in rank}) == 1


def test_nothing_keeps_running(run: Run) -> None:
    assert run.left == []


def test_layouts_count_ranks_as_mpi_does() -> None:
    assert Layout((2, 1)).hosts() == [[0, 1], [2]]
    assert Layout((2, 1), by="node").hosts() == [[0, 2], [1]]
