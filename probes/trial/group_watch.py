"""A watcher inside a child's process group: when the child's leader is gone, all it had started goes too.

The kernel can end the leader when the client dies, but not the leader's own children, and a leader that was killed
can't do it any more. The watcher is forked before anything heavy is loaded and does nothing but look.
Standard library only.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import time

SCRATCH_VARIABLE = "SPECADVISE_SCRATCH"
"""Names the folder to remove when the client was killed before it could."""

GRACE_S = 2.0
"""What a leader that ends by itself leaves its children to tidy up (shared memory, sockets)."""
_LOOK_EVERY_S = 0.2


def watch_group(from_client: int, to_client: int, scratch: str | None) -> None:
    """Fork a watcher of this process, the leader of its process group; returns in the leader only.

    When the leader is gone, the group gets GRACE_S if the client still lives (it asked for the end, and waits), none if
    it doesn't, and is killed. The client lives as long as its end of the pipe `from_client` is open. `to_client` is
    closed here, so that the client sees the leader's end at once. `scratch` is a folder removed if the client is gone.
    """
    leader = os.getpid()
    if os.getpgrp() != leader or os.fork() != 0:
        return
    try:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        os.close(to_client)
        while os.getppid() == leader:
            time.sleep(_LOOK_EVERY_S)
        if not _hung_up(from_client):
            time.sleep(GRACE_S)
        elif scratch:
            shutil.rmtree(scratch, ignore_errors=True)
        os.killpg(leader, signal.SIGKILL)
    finally:
        os._exit(0)


def _hung_up(pipe: int) -> bool:
    """Whether the other end is closed, without reading what is in it."""
    poll = select.poll()
    poll.register(pipe, 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
