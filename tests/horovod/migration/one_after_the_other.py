"""Runs scripts of Horovod's users, unchanged, in one job: each as `python SCRIPT` would.

After each, ranks that have a `model` must have the same one.
"""

import runpy
import sys

import horovod.torch as hvd


def same_everywhere(state: dict[str, object]) -> bool:
    values = {name: getattr(one, "tolist", lambda one=one: one)() for name, one in state.items()}
    everyone = hvd.allgather_object(values)
    return all(one == everyone[0] for one in everyone)


for script in sys.argv[1:]:
    sys.argv[:] = [script]
    names = runpy.run_path(script, run_name="__main__")
    if "model" in names:
        assert same_everywhere(names["model"].state_dict()), script
    hvd.shutdown()
