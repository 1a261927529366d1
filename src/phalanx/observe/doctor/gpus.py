"""GPUs: those that torch can use, and those that it cannot."""

import shutil
from collections import Counter
from collections.abc import Iterator
from typing import Any

from phalanx.observe.doctor.asking import ask, torch_facts
from phalanx.observe.doctor.finding import Finding, Group, fine, odd
from phalanx.observe.doctor.scope import Scope


def gpus(scope: Scope) -> Iterator[Finding]:
    """What there is to compute on besides the processor."""
    facts = torch_facts(scope.seconds)
    if isinstance(facts, str):
        yield fine("GPUs", "not known without torch")
        return
    seen = _seen_by_driver(scope)
    if facts["gpus"]:
        names = Counter(facts["gpus"]).items()
        said = ", ".join(f"{count} × {name}" for name, count in names)
        if facts["nccl"]:
            yield fine("GPUs", f"{said}, NCCL", names=facts["gpus"])
        else:
            why = f"{said}, but this torch has no NCCL to connect them"
            yield odd("GPUs", why, "ranks send through the host's memory; take torch's CUDA build")
    elif seen:
        yield _unused(facts, seen)
    else:
        yield fine("GPUs", "none; trainings run on the processor", names=[])


def _unused(facts: dict[str, Any], seen: int) -> Finding:
    said = f"the driver knows {seen}, and torch {facts['version']} cannot use them"
    if facts["cuda"] or facts["hip"]:
        return odd(
            "GPUs", said, "is the driver older than torch's CUDA, or CUDA_VISIBLE_DEVICES empty?"
        )
    return odd("GPUs", f"{said}: it is built for CPUs alone", "install torch's CUDA build")


def _seen_by_driver(scope: Scope) -> int:
    program = shutil.which("nvidia-smi")
    if program is None:
        return 0
    answer = ask([program, "--list-gpus"], seconds=scope.seconds)
    return answer.output.count("GPU ") if answer.code == 0 else 0


GROUP = Group("GPUs", (gpus,))
