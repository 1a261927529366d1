"""Devices: what ranks found that tried out every way that tensors and trainings take there."""

from collections.abc import Iterator

from phalanx.observe.doctor.finding import Finding, Group, broken, fine, odd
from phalanx.observe.doctor.scope import Scope
from phalanx.wording import counted

_SEND = "please send this table to the project's issues"
_AGAIN = "run `phalanx doctor --devices` where it can be, and send the table"


def devices(scope: Scope) -> Iterator[Finding]:
    """All trials, each a line."""
    report = scope.device_report
    told = report.told
    if "size" not in told:
        why = f"{counted(scope.device_count, 'rank')} did not start: {report.answer.why}"
        yield broken("devices", why, "`phalanx doctor` alone may tell why")
        return
    said = f"{counted(told['size'], 'rank')}, {told['device']}, tensors go {told['way']}"
    yield fine("devices", said, device=told["device"], way=told["way"])
    for name, result in told.get("trials", {}).items():
        if result["verdict"] == "fine":
            yield fine(name, result["said"])
        elif result["verdict"] == "broken":
            yield broken(name, result["said"], _SEND)
        else:
            yield odd(name, f"not tried: {result['said']}", _AGAIN)
    if not report.is_whole:
        why = f"ranks did not come through `{told.get('trying')}`: {report.answer.why}"
        yield broken("devices", why, _SEND)


GROUP = Group("Devices", (devices,))
