"""What ranks on other hosts are told of this host's environment: no secrets."""

import pytest

from phalanx.cli.run import _asked_for, _environment


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What an environment of a bit of everything comes to."""
    for name in (
        *("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DATABASE_URL", "WANDB_API_KEY", "MY_OWN"),
        *("KERAS_TOKEN", "TF_API_KEY", "SSH_AUTH_SOCK", "HOME", "TMPDIR", "CUDA_VISIBLE_DEVICES"),
        *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
        *("PHALANX_CHECK", "OMP_PLACES", "MKL_DEBUG", "PYTHONPATH", "LD_LIBRARY_PATH", "PATH"),
        *("NCCL_DEBUG", "CUDA_LAUNCH_BLOCKING", "KERAS_BACKEND", "TF_XLA_FLAGS", "JAX_PLATFORMS"),
        *("XLA_FLAGS", "HOROVOD_TIMELINE", "TORCH_LOGS"),
    ):
        monkeypatch.setenv(name, f"the value of {name}")
    return _environment(1, ranks=1, forward=True)


def test_what_libraries_need_is_passed_on(exported: dict[str, str]) -> None:
    for name in (
        *("PHALANX_CHECK", "OMP_PLACES", "MKL_DEBUG", "PYTHONPATH", "LD_LIBRARY_PATH", "PATH"),
        *("NCCL_DEBUG", "CUDA_LAUNCH_BLOCKING", "KERAS_BACKEND", "TF_XLA_FLAGS", "JAX_PLATFORMS"),
        *("XLA_FLAGS", "HOROVOD_TIMELINE", "TORCH_LOGS"),
    ):
        assert exported[name] == f"the value of {name}"
    assert exported["OMP_NUM_THREADS"] == "1"


def test_nothing_else_is(exported: dict[str, str]) -> None:
    for name in (
        *("AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DATABASE_URL", "WANDB_API_KEY", "MY_OWN"),
        *("KERAS_TOKEN", "TF_API_KEY", "SSH_AUTH_SOCK", "HOME", "TMPDIR", "CUDA_VISIBLE_DEVICES"),
        *("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
    ):
        assert name not in exported


def test_more_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "a=b")
    assert _asked_for(["GITHUB_TOKEN", "EMPTY=", "MODE=x=y"]) == {
        "GITHUB_TOKEN": "a=b",
        "EMPTY": "",
        "MODE": "x=y",
    }
