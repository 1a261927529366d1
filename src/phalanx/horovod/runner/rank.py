"""A rank of `horovod.run` on several hosts: `python -m phalanx.horovod.runner.rank FOLDER`."""

import sys
from pathlib import Path

from phalanx.comm.calls.pickled import Call, dumps, loads
from phalanx.comm.launch.failure import end_job_on_uncaught_errors
from phalanx.comm.launch.job import current_job


def main(folder: Path) -> None:
    """Call the function that is in the folder, and put there what it returns."""
    end_job_on_uncaught_errors()
    job = current_job()
    rank = 0 if job is None else job.rank
    call: Call = loads((folder / "call").read_bytes())
    result = call.function(*call.args, **call.keywords)
    (folder / str(rank)).write_bytes(dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
