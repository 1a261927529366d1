"""What the tests of Horovod's interface share."""

from collections.abc import Iterator

import pytest

import phalanx.horovod.torch as hvd
from tests.ranks import ranks_of, worker_of


@pytest.fixture
def horovod(request: pytest.FixtureRequest) -> Iterator[None]:
    """Collective. Horovod's interface, started on all ranks of the test's job."""
    hvd.init(worker_of(request).open() if ranks_of(request.node) else None)
    yield
    hvd.shutdown()
