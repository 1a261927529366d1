"""What `import horovod` finds in the ranks of `phalanx run --horovod`: phalanx.horovod.

This folder is on their PYTHONPATH alone. It has nothing else in it, so that it hides nothing.
"""

import sys

try:
    from phalanx.horovod.names import stand_for_horovod
except ModuleNotFoundError as error:
    if error.name != "phalanx":
        raise
    raise ModuleNotFoundError(
        f"`phalanx run --horovod` has phalanx stand for horovod, and {sys.executable} has no "
        "phalanx: install it there, or run the script with the Python that has it"
    ) from None

stand_for_horovod()
