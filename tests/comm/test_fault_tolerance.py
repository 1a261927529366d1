"""How MPI is started where ranks may be lost; what it is for is in tests/chaos."""

import pytest

from phalanx.comm.launch.fault_tolerance import can_survive, have_failures_told


def test_gathering_tells_of_failures() -> None:
    environ = {"OMPI_MCA_coll_tuned_allgather_algorithm": "2"}
    have_failures_told(environ)
    assert environ == {
        "OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
        "OMPI_MCA_coll_tuned_allgather_algorithm": "2",  # a user's choice
        "OMPI_MCA_coll_tuned_allgatherv_algorithm": "3",
    }


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("true", True), ("0", False)])
def test_who_starts_ranks_says_whether_they_may_be_lost(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: bool
) -> None:
    monkeypatch.setenv("OMPI_MCA_mpi_ft_enable", value)
    assert can_survive() is expected
    monkeypatch.delenv("OMPI_MCA_mpi_ft_enable")
    assert not can_survive()
