"""A mixed load on one Loyd process for a time.

    python soak.py --server LOYD --log FILE [--minutes N]

Fails on an answer or a status that is not the known one, on memory or open
files that grow, on calls that the server does not count to their end, on a panic in the log
and on an unclean exit. docs/soak.md
gives the reasons for the limits.
"""

import argparse
import os
import pathlib
import re
import signal
import statistics
import sys
import threading
import time
import traceback
import urllib.request

import grpc

import workers
from loyd.v1 import solver_pb2 as pb
from process import Process, soon

# Of the time: caches, tables and the allocator's arenas fill meanwhile.
WARM_UP = 0.3
# Two thirds of the rest are compared, its first and its last third. Each one's
# memory is told by its median: what is in flight goes up and down by more.
GROWTH_FACTOR = 1.1
GROWTH_BYTES = 16 << 20
# All clients here have at most so many connections at a time, the cut ones
# that the server has yet to notice among them.
MOST_CONNECTIONS = 40
# What the round of a worker may take, once it is to stop: each ends at its first call
# that does not come to its end in time.
MOST_TO_STOP = 2 * workers.TIMEOUT


class Soak:
    def __init__(self, server, log, seconds):
        self.seconds = seconds
        log.unlink(missing_ok=True)
        self.server = Process(
            [
                server,
                "serve",
                "--listen=127.0.0.1:0",
                "--admin-listen=127.0.0.1:0",
                f"--stall-timeout={workers.STALL_TIMEOUT}s",
            ],
            log,
        )
        self.address = soon("the server listens", lambda: self._address("listening"))
        self.admin = soon("the operator may ask", lambda: self._address("admin"))
        self.stopping = threading.Event()
        self.faults = []
        self.samples = []  # (seconds, bytes, files)
        self.clients = []

    def _address(self, what):
        assert self.server.is_running(), self.server.text()
        found = re.search(rf"^{what} on http://(\S+)$", self.server.text(), re.MULTILINE)
        return found and found[1]

    def run(self):
        idle_files = self._sample(0)[2]
        threads = []
        for work, count in workers.WORKERS.items():
            for _ in range(count):
                client = workers.Client(self.address, len(threads))
                self.clients.append((work.__name__, client))
                run = threading.Thread(target=self._work, args=(work, client), daemon=True)
                threads.append(run)
        started = time.monotonic()
        for thread in threads:
            thread.start()
        while (now := time.monotonic() - started) < self.seconds and not self.faults:
            self.samples.append(self._sample(now))
            if len(self.samples) % 60 == 1:
                self._tell(self.samples[-1])
            self.stopping.wait(1)
        self.stopping.set()
        stopped = time.monotonic() + MOST_TO_STOP
        for thread in threads:
            thread.join(max(0, stopped - time.monotonic()))
        if any(thread.is_alive() for thread in threads):
            self.faults.append(f"workers did not stop within {MOST_TO_STOP} s")
        if not self.faults:
            self._check_growth(idle_files)
            self._check_files(idle_files)
            self._check_counts()
        self._check_end()
        self._tell_counts()

    def _work(self, work, client):
        rounds = 0
        try:
            while not self.stopping.is_set():
                work(client)
                rounds += 1
            assert rounds > 0, "not one round was done"
        except Exception:  # noqa: BLE001: reported at the end
            self.faults.append(f"{work.__name__}, round {rounds}: {traceback.format_exc()}")
            self.stopping.set()
        finally:
            client.counts["rounds"] = rounds
            client.channel.close()

    def _sample(self, now):
        pid = self.server.process.pid
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        resident = int(re.search(r"^VmRSS:\s+(\d+) kB$", status, re.MULTILINE)[1]) << 10
        return now, resident, len(os.listdir(f"/proc/{pid}/fd"))

    def _tell(self, sample):
        now, resident, files = sample
        print(f"{now:6.0f} s  {resident / 2**20:7.1f} MiB  {files:4d} files", flush=True)

    def _check_growth(self, idle_files):
        warm = [sample for sample in self.samples if sample[0] >= self.seconds * WARM_UP]
        third = len(warm) // 3
        first, last = warm[:third], warm[-third:]
        memory = [statistics.median(sample[1] for sample in part) for part in (first, last)]
        files = [max(sample[2] for sample in part) for part in (first, last)]
        print(f"after the warm-up: memory {memory[0] / 2**20:.1f} and then {memory[1] / 2**20:.1f} MiB,"
              f" at most {files[0]} and then {files[1]} files;"
              f" most memory {max(s[1] for s in self.samples) / 2**20:.1f} MiB")
        if memory[1] > memory[0] * GROWTH_FACTOR + GROWTH_BYTES:
            self.faults.append("memory grew")
        if max(files) > idle_files + MOST_CONNECTIONS:
            self.faults.append(f"files of more than {MOST_CONNECTIONS} connections were open")

    def _check_files(self, idle):
        """With all clients gone, no connection is left."""
        try:
            soon("the files of all connections are closed", lambda: self._sample(0)[2] <= idle)
        except AssertionError as fault:
            self.faults.append(f"{fault}: {self._sample(0)[2]}, and {idle} before")

    def _check_counts(self):
        """With all calls over, the server has counted each to its end, and as it ended."""
        try:
            soon("the server has ended all calls", lambda: all_ended(self._metrics()))
        except AssertionError as fault:
            self.faults.append(f"{fault}: {self._metrics()}")
            return
        metrics = self._metrics()
        for code, least in (("OK", 1), ("Canceled", 1), ("DeadlineExceeded", 1), ("Aborted", 1)):
            if ended(metrics, "SolveBatch", code) < least:
                self.faults.append(f"the server counts no stream that ended as {code}")
        cancelled = sum(client.counts["cancelled"] for _, client in self.clients)
        if ended(metrics, "SolveBatch", "Canceled") > cancelled:
            self.faults.append(f"of {cancelled} streams that clients left more are counted")
        refused = sum(client.counts["refused"] for _, client in self.clients)
        shed = metrics["loyd_shed_total"]
        if refused > shed:
            self.faults.append(f"{refused} calls were refused, and {shed} are counted")

    def _metrics(self):
        with urllib.request.urlopen(f"http://{self.admin}/metrics", timeout=workers.TIMEOUT) as page:
            lines = page.read().decode().splitlines()
        series = (line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
        return {name: float(value) for name, value in series}

    def _check_end(self):
        """SIGTERM, with streams that are open."""
        if not self.server.is_running():
            self.faults.append(f"the server ended by itself: {self.server.wait()}")
            return
        with grpc.insecure_channel(self.address) as channel:
            done = threading.Event()
            try:
                streams = [self._open_stream(channel, done) for _ in range(3)]
                self.server.signal(signal.SIGTERM)
                for stream in streams:
                    workers.expect_status(stream, {grpc.StatusCode.UNAVAILABLE})
                code = self.server.wait()
                if code != 0:
                    self.faults.append(f"exit code {code}")
            except Exception:  # noqa: BLE001: reported
                self.faults.append(f"the end was not clean: {traceback.format_exc()}")
            finally:
                done.set()
        log = self.server.text()
        for line in log.splitlines():
            if "panic" in line or " ERROR " in line or "cut what was left" in line:
                self.faults.append(f"in the log: {line}")

    def _open_stream(self, channel, done):
        """A stream that was answered once and stays open until `done`."""

        def requests():
            yield workers.batch.packed_request(1, [workers.puzzle.GOAL])
            done.wait()

        stub = workers.solver_pb2_grpc.SolverServiceStub(channel)
        stream = stub.SolveBatch(requests(), timeout=workers.TIMEOUT)
        assert next(stream).packed.outcomes == [pb.OUTCOME_SOLVED]
        return stream

    def _tell_counts(self):
        names = "rounds", "calls", "boards", "refused", "cancelled"
        print(f"{'worker':16}" + "".join(f"{name:>11}" for name in names))
        totals = {}
        for name, client in self.clients:
            counts = totals.setdefault(name, dict.fromkeys(("rounds", *client.counts), 0))
            for key, value in client.counts.items():
                counts[key] += value
        for name, counts in totals.items():
            print(f"{name:16}" + "".join(f"{counts[each]:11}" for each in names))


def ended(metrics, method, code=None):
    """How many calls of a method ended, or ended so."""
    return sum(
        value
        for name, value in metrics.items()
        if name.startswith("grpc_server_handled_total{")
        and f'grpc_method="{method}"' in name
        and (code is None or f'grpc_code="{code}"' in name)
    )


def all_ended(metrics):
    """Whether every call that was begun is over, and nothing is left at work for one."""
    begun = {
        re.search(r'grpc_method="(\w+)"', name)[1]: value
        for name, value in metrics.items()
        if name.startswith("grpc_server_started_total{") and 'service="loyd' in name
    }
    assert begun["Solve"] > 0 and begun["SolveBatch"] > 0, begun
    idle = ("loyd_calls_in_flight", "loyd_queue_depth", "loyd_compute_threads_busy")
    return all(ended(metrics, method) == count for method, count in begun.items()) and all(
        metrics[name] == 0 for name in idle
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--server", required=True)
    parser.add_argument("--log", required=True, type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=10)
    arguments = parser.parse_args()
    # Ends the server too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    soak = Soak(arguments.server, arguments.log, arguments.minutes * 60)
    try:
        soak.run()
    finally:
        soak.stopping.set()
        soak.server.end()
    for fault in soak.faults:
        print(f"FAILED {fault}")
    print(f"{int(not soak.faults)} passed, {len(soak.faults)} failed")
    sys.exit(bool(soak.faults))


main()
