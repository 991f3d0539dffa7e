"""Load with answers that are known."""

import random
import threading
import time

import grpc

import batch
import puzzle
import resume
from loyd.v1 import solver_pb2 as pb
from loyd.v1 import solver_pb2_grpc

UNARY_THREADS = 4
STREAMS = 12
BOARDS_A_MESSAGE = 20
PAUSE = 0.02  # seconds between the messages of a stream: long streams, not much work

DISTANCES = puzzle.distances_from_goal()
BOARDS = random.Random(6).sample(sorted(DISTANCES), 2000)


class Load:
    """Unary calls and long streams over one channel, until `stop`."""

    def __init__(self, way, seconds, unary=UNARY_THREADS, streams=STREAMS):
        """Each stream has messages for so long."""
        self.unary = unary
        self.channel = way.channel()
        self.stub = solver_pb2_grpc.SolverServiceStub(self.channel)
        self.stopping = threading.Event()
        self.answered = 0
        self.failures = []  # (when, code, text) of unary calls
        self.stream_ends = []  # (code, text) of streams
        self.faults = []  # what must never be
        self.messages = int(seconds / PAUSE)
        self.give_up = time.monotonic() + seconds + 30
        runs = [self._unary] * unary + [self._pipeline] * streams
        self.threads = [threading.Thread(target=self._guarded, args=(run,)) for run in runs]
        for thread in self.threads:
            thread.start()

    def stop(self):
        """Waits for all streams, ends the calls, and checks what is never allowed."""
        for thread in self.threads[self.unary :]:
            thread.join()
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        self.channel.close()
        assert not self.faults, self.faults[:3]
        assert self.answered > 0 or not self.unary, "no unary call was answered"

    def codes_of_streams(self):
        return {code.name for code, _ in self.stream_ends}

    def _guarded(self, run):
        try:
            run()
        except Exception as fault:  # noqa: BLE001: reported by `stop`
            self.faults.append(repr(fault))
            self.stopping.set()

    def _unary(self):
        source = random.Random(threading.get_ident())
        while not self.stopping.is_set():
            board = source.choice(BOARDS)
            request = pb.SolveRequest(board=pb.Board(tiles=board))
            try:
                length = self.stub.Solve(request, timeout=10).solution.length
            except grpc.RpcError as error:
                self.failures.append((time.monotonic(), error.code(), error.details()))
            else:
                assert length == DISTANCES[board], f"{board}: {length}"
                self.answered += 1
            time.sleep(0.004)

    def _pipeline(self):
        """One pipeline that goes on over as many streams as it takes."""
        source = random.Random(threading.get_ident())
        boards = [source.choices(BOARDS, k=BOARDS_A_MESSAGE) for _ in range(self.messages)]
        requests = [batch.packed_request(number, some) for number, some in enumerate(boards)]
        answered = resume.solve_all(Paced(self), requests)
        for number, (request, responses) in enumerate(answered):
            assert request.id == number, f"request {request.id}, not {number}"
            lengths = [length for response in responses for length in response.packed.lengths]
            right = [DISTANCES[board] for board in boards[number]]
            assert lengths == right, f"request {number}: {lengths}"
        assert number == len(requests) - 1, "some requests have no answer"


class Paced:
    """A stub whose streams last, and which keeps how they ended."""

    def __init__(self, load):
        self.load = load

    def SolveBatch(self, requests):
        left = self.load.give_up - time.monotonic()
        assert left > 0, f"still resuming: {self.load.stream_ends[-3:]}"
        stream = self.load.stub.SolveBatch(self._paced(requests), timeout=left)
        stream.add_done_callback(
            lambda ended: self.load.stream_ends.append((ended.code(), ended.details()))
        )
        return stream

    def _paced(self, requests):
        for request in requests:
            yield request
            time.sleep(PAUSE)
