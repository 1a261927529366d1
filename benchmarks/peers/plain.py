"""Plain torch in one process."""

from argparse import Namespace

from benchmarks.peers.loop import Peer, Step, build, make_step, run
from benchmarks.workloads import Workload


class Plain(Peer):
    def __init__(self, arguments: Namespace) -> None:
        self._tuned: bool = arguments.tuned

    def prepare(self, workload: Workload) -> Step:
        model, optimizer = build(workload, tuned=self._tuned)
        return make_step(workload, model, optimizer, channels_last=self._tuned)


if __name__ == "__main__":
    run(Plain)
