"""Keeps the program that calls models on Kiln running, and restarts it if it exits or does not respond."""

import json
import subprocess
import threading


class Silence(Exception):
    """The program exited, or took too long."""


class Worker:
    def __init__(self, program, time_limit):
        self.program, self.time_limit = program, time_limit
        self.child = None

    def ask(self, request):
        """The program's response; raises `Silence` if there is none."""
        if self.child is None:
            self.child = subprocess.Popen([self.program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                          stderr=subprocess.DEVNULL, text=True)
        late = threading.Timer(self.time_limit, self.child.kill)
        late.start()
        try:
            print(json.dumps(request), file=self.child.stdin, flush=True)
            line = self.child.stdout.readline()
        except OSError:
            line = ""
        finally:
            in_time = late.is_alive()
            late.cancel()
        if line:
            return json.loads(line)
        status, self.child = self.child.wait(), None
        raise Silence(f"ended by {status}" if in_time else f"more than {self.time_limit} s")

    def close(self):
        if self.child is not None:
            self.child.stdin.close()
            self.child.wait()
