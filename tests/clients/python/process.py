"""Processes that the checks start, and what they wait for."""

import contextlib
import signal
import socket
import subprocess
import time

PATIENCE = 20  # seconds for whatever should be soon


class Process:
    """A program with its output in a file."""

    def __init__(self, command, log, environment=None):
        self.log = log
        with open(log, "ab") as output:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment
            )

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, seconds=PATIENCE):
        """The exit code; negative where a signal ended it."""
        return self.process.wait(seconds)

    def is_running(self):
        return self.process.poll() is None

    def end(self):
        """Ends it whatever it does."""
        if self.is_running():
            self.signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.wait(3)
        if self.is_running():
            self.signal(signal.SIGKILL)
            self.wait()

    def text(self):
        return self.log.read_text(errors="replace")


def soon(what, condition, seconds=PATIENCE):
    """Waits until the condition holds, and returns what it gave."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.05)
    return value


def free_port():
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def accepts(port):
    """Whether somebody listens there."""
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    return False
