"""`phalanx run --min-np`: how few ranks may go on."""

from typing import Any

import pytest

from phalanx.cli.app import app
from phalanx.cli.flags.elastic import Elastic
from phalanx.errors import UsageError


def launched(monkeypatch: pytest.MonkeyPatch, *flags: str) -> tuple[int, dict[str, Any]]:
    """With how many ranks, and how, a line would start a job."""
    calls: list[tuple[int, dict[str, Any]]] = []

    def launch(ranks: int, command: list[str], **options: Any) -> int:
        calls.append((ranks, options))
        return 0

    monkeypatch.setattr("phalanx.cli.run.launch", launch)
    app(["run", *flags, "true"], standalone_mode=False)
    return calls[0]


def test_what_ranks_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    line = "-np 3 --min-num-proc 2 --max-np 4 --reset-limit 5 --elastic-timeout 60"
    ranks, options = launched(monkeypatch, *line.split())
    assert (ranks, options["survive"]) == (3, True)
    assert options["exports"]["PHALANX_MIN_NP"] == "2"
    assert options["exports"]["PHALANX_RESET_LIMIT"] == "5"
    ranks, options = launched(monkeypatch, "-np", "3")
    assert (ranks, options["survive"]) == (3, False)
    assert "PHALANX_MIN_NP" not in options["exports"]


def test_how_many_are_started() -> None:
    assert Elastic().ranks(None, most=4) == 4
    assert Elastic(1, 3).ranks(None, most=4) == 3
    assert Elastic(2, 3).ranks(2, most=4) == 2
    with pytest.raises(UsageError, match="--min-np 3 is above the 2 ranks to start"):
        Elastic(3).ranks(2, most=4)
    with pytest.raises(UsageError, match="--max-np 3 is below the 4 ranks to start"):
        Elastic(1, 3).ranks(4, most=4)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--max-np 3", "--max-np goes with --min-np"),
        ("--reset-limit 3", "--reset-limit goes with --min-np"),
        ("--elastic-timeout 3", "--elastic-timeout goes with --min-np"),
        ("--min-np 0", "--min-np must be at least 1, not 0"),
        ("--min-np 1 --reset-limit -1", "--reset-limit must not be negative, as -1 is"),
        ("--min-np 1 --host-discovery-script x.sh", "but none are added: give -np and --hosts"),
        ("--min-np 1 --slots-per-host 2", "but none are added"),
    ],
)
def test_refusals(monkeypatch: pytest.MonkeyPatch, flags: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        launched(monkeypatch, *flags.split())
