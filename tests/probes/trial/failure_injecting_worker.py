"""NOT an engine: a child that speaks the worker's protocol only to fail on purpose. Never a source of measurements.

The first engine argument `fail` says how: refuse | refuse_silently | crash | out_of_memory | hang | hang_at_start |
leave_child | none.
"""

import argparse
import json
import os
import subprocess
import sys
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--read", type=int)
    parser.add_argument("--write", type=int)
    parser.add_argument("--parent", type=int)
    options = parser.parse_args()
    commands, events = os.fdopen(options.read), os.fdopen(options.write, "w")

    def send(**event):
        events.write(json.dumps(event) + "\n")
        events.flush()

    fail = json.loads(commands.readline())["engine_args"]["fail"]
    if fail == "refuse":
        send(event="failed", error="ValueError: this configuration is refused on purpose")
        os._exit(1)
    if fail == "refuse_silently":
        sys.stderr.write("Traceback (most recent call last):\nOSError: /some/where/model is no model\n")
        sys.stderr.flush()
        os._exit(1)
    if fail == "hang_at_start":
        time.sleep(600)
    send(event="ready", start_s=0.0, k_control="fixed", max_model_len=100, repairs=[])
    if fail == "leave_child":
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        send(event="beat", id=0, steps=0, tokens=0)
        sys.stderr.write(f"child {child.pid}\n")
        sys.stderr.flush()
    for line in commands:
        command = json.loads(line)
        if command["cmd"] == "stop":
            os._exit(0)
        if fail == "crash":
            sys.stderr.write("RuntimeError: the step failed on purpose\n")
            sys.stderr.flush()
            os._exit(7)
        if fail == "out_of_memory":
            send(event="error", id=command["id"], error="OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB")
        elif fail == "hang":
            time.sleep(600)
        else:
            send(event="result", id=command["id"], data={"asked": command["cmd"]})


if __name__ == "__main__":
    main()
