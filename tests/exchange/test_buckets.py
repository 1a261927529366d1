"""Which parameters share a bucket."""

import torch

from phalanx.exchange.buckets import Bucket, plan_buckets

FLOAT, DOUBLE = torch.float32, torch.float64


def indices(buckets: list[Bucket]) -> list[tuple[int, ...]]:
    return [bucket.indices for bucket in buckets]


def test_from_the_last_parameter_to_the_first() -> None:
    buckets = plan_buckets([5, 3, 9, 2, 2], [FLOAT] * 5, most_bytes=4 * 8)
    assert indices(buckets) == [(3, 4), (2,), (0, 1)]
    assert buckets[1].length == 9, "larger than a bucket, and so alone"
    assert (buckets[2].sizes, buckets[2].starts, buckets[2].length) == ((5, 3), [0, 5], 8)


def test_one_dtype_a_bucket() -> None:
    dtypes = [FLOAT, DOUBLE, FLOAT, DOUBLE]
    buckets = plan_buckets([4, 4, 4, 4], dtypes, most_bytes=4 * 8)
    assert indices(buckets) == [(3,), (0, 2), (1,)], "four doubles are as large as eight floats"
    assert [bucket.dtype for bucket in buckets] == [DOUBLE, FLOAT, DOUBLE]


def test_groups_go_together_whatever_their_size() -> None:
    dtypes = [FLOAT, FLOAT, DOUBLE, FLOAT, FLOAT]
    buckets = plan_buckets([9] * 5, dtypes, most_bytes=1, groups=[[3, 0, 2]])
    assert indices(buckets) == [(4,), (0, 3), (2,), (1,)]


def test_what_is_separate_is_in_no_bucket() -> None:
    plan = plan_buckets([1] * 5, [FLOAT] * 5, most_bytes=64, groups=[[0, 1]], separate={1, 3})
    assert indices(plan) == [(2, 4), (0,)]
    assert plan_buckets([1], [FLOAT], most_bytes=64, groups=[[0]], separate={0}) == []
    assert plan_buckets([], [], most_bytes=64) == []
