"""A task that runs far longer than its lease: a living worker renews it, with no settings.

Should the lease be lost all the same (the whole process was frozen for long), another worker may be running the task
by now. `ctx.lost()` says so, and the sooner this attempt stops, the less is done twice.
"""

import time
from pathlib import Path

from nextdue import Context, Nextdue

nd = Nextdue(Path(__file__).with_name("long_task.db"))


@nd.task(lease="1s")  # absurdly short, to show it; the default of 5 minutes is right for nearly all
def crunch(ctx: Context, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ctx.lost():
            print("somebody else has it now; stopping", flush=True)
            return
        time.sleep(0.05)  # a piece of the work
    print("done in one go", flush=True)


if __name__ == "__main__":
    handle = crunch.enqueue(3)
    nd.run(once=True)
    print(f"{handle.state} after {len(handle.runs())} attempt", flush=True)
