"""The parts of the mixed load. Each worker is a function that does one round;
an answer that is not the known one, or a status that it does not expect, raises.
"""

import contextlib
import random
import socket
import struct
import time

import grpc

import batch
import puzzle
from loyd.v1 import solver_pb2 as pb
from loyd.v1 import solver_pb2_grpc

DISTANCES = puzzle.distances_from_goal()
STALL_TIMEOUT = 3  # seconds: the server's, so that readers that stop are ended often
TIMEOUT = 60  # seconds for a call that is meant to succeed
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

# A connection of its own for each channel, and a new one at once after a loss.
CHANNEL_OPTIONS = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
]
OPTIMAL = [
    pb.ALGORITHM_UNSPECIFIED,
    pb.ALGORITHM_BIDIRECTIONAL_BFS,
    pb.ALGORITHM_GOAL_TABLE,
    pb.ALGORITHM_A_STAR,
    pb.ALGORITHM_BFS,
]


class Client:
    """One worker's connection, chance and counts."""

    def __init__(self, address, seed):
        self.address = address
        self.source = random.Random(seed)
        self.counts = {"calls": 0, "boards": 0, "refused": 0, "cancelled": 0}
        self.open()

    def open(self):
        self.channel = grpc.insecure_channel(self.address, options=CHANNEL_OPTIONS)
        self.stub = solver_pb2_grpc.SolverServiceStub(self.channel)

    def boards(self, count):
        """Boards, some unsolvable and some malformed, each with the reason to expect."""
        return puzzle.random_boards(count, self.source.random())

    def count(self, boards):
        self.counts["calls"] += 1
        self.counts["boards"] += boards


def check_answer(board, reason, answer):
    where = f"{board}: {answer}"
    if reason is not None:
        assert (answer.outcome, answer.reason) == ("ERROR", reason), f"{where}, not {reason}"
    elif not puzzle.is_solvable(board):
        assert answer.outcome == "UNSOLVABLE", where
    else:
        assert answer.outcome == "SOLVED", where
        assert answer.length == DISTANCES[board], f"{where}, not {DISTANCES[board]}"
        assert puzzle.replay(board, answer.moves) == puzzle.GOAL, where


def is_overloaded(error):
    """Whether a call was refused since too much work waits: the contract says to retry."""
    details = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
    return error.code() == grpc.StatusCode.UNAVAILABLE and b"OVERLOADED" in details


def solve(client, request, **options):
    """The answer to a board; `None` where it was refused for too much work."""
    try:
        return client.stub.Solve(request, timeout=TIMEOUT, **options).solution
    except grpc.RpcError as error:
        if not is_overloaded(error):
            raise
    # The streams have filled the queue.
    client.counts["refused"] += 1
    time.sleep(0.05)
    return None


def unary(client):
    """A hundred single boards, by every optimal method."""
    refused = 0
    for board, reason in client.boards(100):
        options = pb.SolveOptions(algorithm=client.source.choice(OPTIMAL))
        request = pb.SolveRequest(board=pb.Board(tiles=board), options=options)
        try:
            solution = solve(client, request)
        except grpc.RpcError as error:
            assert reason and error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        else:
            if solution is None:
                refused += 1
                continue
            assert reason is None, f"{board} was accepted: {reason}"
            name = batch.outcome_name(solution.outcome)
            check_answer(board, None, batch.Answer(name, solution.moves, solution.length))
            assert solution.optimal == (name == "SOLVED"), solution
        client.count(1)
    assert refused < 100, "each of a hundred calls was refused: nothing makes room"


def lists(client):
    _batch(client, "list", batch.list_request, messages=10, boards=200)


def packed(client):
    _batch(client, "packed", batch.packed_request, messages=10, boards=1000)


def _batch(client, form, make_request, messages, boards):
    """A stream of messages, every answer looked at."""
    asked = [client.boards(boards) for _ in range(messages)]
    requests = [
        make_request(number, [board for board, _ in some]) for number, some in enumerate(asked)
    ]
    answered = batch.solve_batch(client.stub, requests, timeout=TIMEOUT)
    for some, responses in zip(asked, answered, strict=True):
        answers = batch.answers_of(form, responses)
        for (board, reason), answer in zip(some, answers, strict=True):
            check_answer(board, reason, answer)
    client.count(messages * boards)


def bad_messages(client):
    """Messages that are refused, between good ones of the same stream; and calls that fail."""
    good = [board for board, _ in client.boards(50)]
    wrong_weight = pb.SolveOptions(algorithm=pb.ALGORITHM_A_STAR, weight=0.5)
    too_many = batch.packed_request(3, [puzzle.GOAL] * 65_537)
    requests = [
        batch.packed_request(0, good),
        pb.SolveBatchRequest(id=1, list=pb.BoardList(boards=[pb.Board()]), options=wrong_weight),
        pb.SolveBatchRequest(id=2, packed=pb.PackedBoards(tiles=bytes(10))),
        too_many,
        batch.list_request(4, good),
    ]
    answered = list(client.stub.SolveBatch(iter(requests), timeout=TIMEOUT))
    reasons = [batch.reason_name(response.error) for response in answered[1:4]]
    assert reasons == ["BAD_WEIGHT", "WRONG_TILE_COUNT", "TOO_MANY_BOARDS"], reasons
    assert len(answered[0].packed.outcomes) == len(answered[4].list.results) == 50, answered

    raw = client.channel.stream_stream("/loyd.v1.SolverService/SolveBatch")
    for message, code in (
        (b"\xff\xff\xff", grpc.StatusCode.INTERNAL),
        (bytes(5 << 20), grpc.StatusCode.RESOURCE_EXHAUSTED),
    ):
        expect_status(raw(iter([message]), timeout=TIMEOUT), {code})
    client.count(100)


def cancels(client):
    """Calls that nobody waits for, or that have too little time.

    The codes here are grpcio's own; those of the server are looked at in the end, by its metrics.
    """
    slow = pb.SolveOptions(algorithm=pb.ALGORITHM_BFS)
    boards = [board for board, reason in client.boards(3000) if reason is None]
    request = batch.list_request(1, boards)
    request.options.CopyFrom(slow)
    for _ in range(5):
        stream = client.stub.SolveBatch(iter([request] * 3), timeout=TIMEOUT)
        time.sleep(client.source.uniform(0, 0.05))
        stream.cancel()
        client.counts["cancelled"] += 1
        expect_status(stream, {grpc.StatusCode.CANCELLED})
        single = pb.SolveRequest(board=pb.Board(tiles=boards[0]), options=slow)
        future = client.stub.Solve.future(single, timeout=TIMEOUT)
        future.cancel()
    stream = client.stub.SolveBatch(iter([request] * 3), timeout=0.1)
    # The server may hear of its client's end before its own clock says so.
    client.counts["cancelled"] += 1
    expect_status(stream, {grpc.StatusCode.DEADLINE_EXCEEDED})
    client.count(0)


def slow_reader(client):
    """Reads with pauses that are too short to count as a stall."""
    boards = [board for board, reason in client.boards(2000) if reason is None]
    requests = [batch.packed_request(number, boards) for number in range(20)]
    right = [DISTANCES.get(board, 0) for board in boards]  # 0 where it is unsolvable
    lengths = []
    for response in client.stub.SolveBatch(iter(requests), timeout=TIMEOUT):
        lengths += response.packed.lengths
        if not response.more:
            assert lengths == right, f"response {response.id}"
            lengths = []
            client.count(len(boards))
        time.sleep(0.05)
    assert response.id == len(requests) - 1, f"the last response is to {response.id}"


def stalled_reader(client):
    """Does not read until the server gives up."""
    # More than grpcio and the server hold, and quickly solved.
    boards = [board for board, _ in client.boards(20_000)]
    options = pb.SolveOptions(algorithm=pb.ALGORITHM_GOAL_TABLE)
    requests = [batch.packed_request(number, boards) for number in range(20)]
    for request in requests:
        request.options.CopyFrom(options)
    stream = client.stub.SolveBatch(iter(requests), timeout=TIMEOUT)
    next(stream)
    time.sleep(STALL_TIMEOUT * 2)
    expect_status(stream, {grpc.StatusCode.ABORTED})
    client.count(0)


def reconnects(client):
    """Connections that last for a call, for nothing, or end in the middle of one."""
    client.channel.close()
    client.open()
    request = pb.SolveRequest(board=pb.Board(tiles=puzzle.GOAL))
    solve(client, request, wait_for_ready=True)
    host, port = client.address.split(":")
    for hello in (b"", PREFACE[:10], PREFACE, PREFACE + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])):
        with socket.create_connection((host, int(port)), TIMEOUT) as connection:
            connection.sendall(hello)
            if client.source.random() < 0.5:
                # Ends by RST.
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    # Cut with a stream in full flow.
    channel = grpc.insecure_channel(client.address, options=CHANNEL_OPTIONS)
    stub = solver_pb2_grpc.SolverServiceStub(channel)
    boards = [board for board, _ in client.boards(1000)]
    stream = stub.SolveBatch(iter([batch.packed_request(1, boards)] * 20), timeout=TIMEOUT)
    next(stream)
    channel.close()
    client.counts["cancelled"] += 1
    client.count(1)
    time.sleep(0.05)


def expect_status(stream, codes):
    """Reads the stream to its end, which has to be one of these."""
    code = grpc.StatusCode.OK
    with contextlib.suppress(grpc.FutureCancelledError):
        try:
            for _ in stream:
                pass
        except grpc.RpcError as error:
            code = error.code()
            assert code in codes, f"{code} {error.details()}, not {codes}"
            return
        assert code in codes, f"{code}, not {codes}"


# Each worker, and how many of them run at once.
WORKERS = {
    unary: 2,
    lists: 1,
    packed: 1,
    bad_messages: 1,
    cancels: 1,
    slow_reader: 2,
    stalled_reader: 1,
    reconnects: 1,
}
