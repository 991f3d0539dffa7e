"""Checks a running Loyd server with grpcio, as a Python program would use it.

    python checks.py 127.0.0.1:50051

Each check is a function. It prints `ok <name>` or `FAILED <name>` with the
reason, and the last line counts them.
"""

import sys
import threading
import traceback
from functools import cache

import grpc
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)
from grpc_status import rpc_status

import batch
import puzzle
import resume
import unreliable
from loyd.v1 import solver_pb2 as pb
from loyd.v1 import solver_pb2_grpc

[ADDRESS] = sys.argv[1:]
SERVICE = "loyd.v1.SolverService"
SAMPLE = (2, 3, 4, 1, 5, 0, 7, 6, 8)  # needs 19 moves
UNSOLVABLE = (2, 1, 3, 4, 5, 6, 7, 8, 0)
BATCH_SIZE = 100_000
SEED = 8
MANY_BOARDS = 1_000_000
BOARDS_A_MESSAGE = 4096
MOST_UNREAD_BYTES = 3_000_000  # of answers, that grpcio and the server hold
TIMEOUT = 20  # seconds for a single call


# Unary calls


def unary_call_solves_the_sample(channel):
    solution = solve(channel, SAMPLE).solution
    expect(solution.outcome, pb.OUTCOME_SOLVED)
    expect(solution.length, 19)
    expect(len(solution.moves), 19)
    expect(solution.optimal, True)
    expect(puzzle.replay(SAMPLE, solution.moves), puzzle.GOAL)
    expect(solution.stats.algorithm, pb.ALGORITHM_BIDIRECTIONAL_BFS)
    expect(solution.stats.HasField("elapsed"), True)


def unary_call_reaches_another_goal(channel):
    goal = (1, 2, 3, 8, 0, 4, 7, 6, 5)
    solution = solve(channel, (2, 8, 3, 1, 6, 4, 7, 0, 5), goal=goal).solution
    expect(solution.outcome, pb.OUTCOME_SOLVED)
    expect(solution.length, 5)
    expect(puzzle.replay((2, 8, 3, 1, 6, 4, 7, 0, 5), solution.moves), goal)


def unsolvable_is_an_answer_not_an_error(channel):
    solution = solve(channel, UNSOLVABLE).solution
    expect(solution.outcome, pb.OUTCOME_UNSOLVABLE)
    expect(solution.moves, "")
    expect(solution.length, 0)


def every_optimal_method_finds_the_same_length(channel):
    for algorithm in (
        pb.ALGORITHM_BIDIRECTIONAL_BFS,
        pb.ALGORITHM_GOAL_TABLE,
        pb.ALGORITHM_A_STAR,
        pb.ALGORITHM_BFS,
    ):
        options = pb.SolveOptions(algorithm=algorithm)
        solution = solve(channel, SAMPLE, options=options).solution
        expect(solution.length, 19)
        expect(solution.optimal, True)
        expect(puzzle.replay(SAMPLE, solution.moves), puzzle.GOAL)
        expect(solution.stats.algorithm, algorithm)


def malformed_board_is_invalid_argument_with_details(channel):
    try:
        solve(channel, (1, 2, 3, 4, 4, 6, 7, 8, 0))
    except grpc.RpcError as error:
        expect(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        bad_request, error_info = details_of(error)
    else:
        raise AssertionError("a board with two 4s was accepted")
    expect([v.field for v in bad_request.field_violations], ["board.tiles[4]"])
    expect(bool(bad_request.field_violations[0].description), True)
    expect(error_info.reason, "DUPLICATE_TILE")
    expect(error_info.domain, "loyd.v1")


# Streams of batches


def batch_of_lists_is_solved_optimally(channel):
    check_answers(batch_answers(channel, "list"))


def batch_of_packed_boards_is_solved_optimally(channel):
    check_answers(batch_answers(channel, "packed"))


def list_and_packed_agree_in_lengths(channel):
    as_list = batch_answers(channel, "list")
    as_packed = batch_answers(channel, "packed")
    pairs = enumerate(zip(as_list, as_packed, strict=True))
    different = [index for index, (one, two) in pairs if one.length != two.length]
    assert not different, f"the first board with two lengths has index {different[0]}"


def large_answer_comes_in_several_responses(channel):
    responses = batch_responses(channel, "packed")[0]
    size = sum(response.ByteSize() for response in responses)
    assert size > batch.MAX_RESPONSE_BYTES, f"only {size} bytes: the check is void"
    assert len(responses) > 1, f"{size} bytes in {len(responses)} response"


def fault_of_one_board_touches_no_other(channel):
    boards = [
        (pb.Board(tiles=SAMPLE), ""),
        (pb.Board(tiles=SAMPLE[:8]), "WRONG_TILE_COUNT"),
        (pb.Board(tiles=(1, 2, 3, 4, 5, 6, 7, 9, 0)), "TILE_OUT_OF_RANGE"),
        (pb.Board(tiles=(1, 2, 3, 4, 5, 0, 7, 8, 0)), "DUPLICATE_TILE"),
        (pb.Board(tiles=SAMPLE, rows=3), "BAD_SHAPE"),
        (pb.Board(tiles=(*range(1, 100), 0)), "UNSUPPORTED_SIZE"),
        (pb.Board(tiles=SAMPLE, rows=3, columns=3), ""),
    ]
    board_list = pb.BoardList(boards=[board for board, _ in boards])
    request = pb.SolveBatchRequest(id=7, list=board_list)
    [responses] = solve_batch(channel, [request])
    answers = batch.answers_of("list", responses)
    expect([answer.reason for answer in answers], [reason for _, reason in boards])
    expect([answers[0].length, answers[-1].length], [19, 19])


def bad_request_in_a_stream_is_answered_and_the_stream_goes_on(channel):
    unknown_algorithm = batch.packed_request(2, [SAMPLE])
    unknown_algorithm.options.algorithm = 99
    bad_goal = batch.packed_request(3, [SAMPLE])
    bad_goal.goal.tiles[:] = (1, 2, 3, 0)
    torn = pb.SolveBatchRequest(id=4, packed=pb.PackedBoards(tiles=bytes(SAMPLE[:8])))
    good = batch.packed_request(5, [SAMPLE])
    first = batch.packed_request(1, [SAMPLE])
    requests = [first, unknown_algorithm, bad_goal, torn, good]

    responses = list(map(only, solve_batch(channel, requests)))
    reasons = [
        batch.reason_name(response.error)
        for response in responses
        if response.WhichOneof("results") == "error"
    ]
    expect(reasons, ["UNKNOWN_ENUM_VALUE", "GOAL_MISMATCH", "WRONG_TILE_COUNT"])
    for response in (responses[0], responses[4]):
        expect(batch.answers_of("packed", [response])[0].length, 19)


def too_many_boards_are_refused_and_the_stream_goes_on(channel):
    requests = [
        batch.list_request(1, [SAMPLE] * (batch.MAX_BOARDS["list"] + 1)),
        batch.packed_request(2, [SAMPLE] * (batch.MAX_BOARDS["packed"] + 1)),
        batch.packed_request(3, [SAMPLE]),
    ]
    as_list, as_packed, good = map(only, solve_batch(channel, requests))
    for response, form in ((as_list, "list"), (as_packed, "packed")):
        expect(response.WhichOneof("results"), "error")
        expect(batch.reason_name(response.error), "TOO_MANY_BOARDS")
        expect(response.error.limit, batch.MAX_BOARDS[form])
    expect(batch.answers_of("packed", [good])[0].length, 19)


def request_without_boards_gets_its_id_back(channel):
    request = pb.SolveBatchRequest(id=2**64 - 1)
    [responses] = solve_batch(channel, [request])
    expect(only(responses).WhichOneof("results"), None)


def stream_without_requests_ends_ok(channel):
    expect(solve_batch(channel, []), [])


def a_million_packed_boards_are_answered_right(channel):
    requests = packed_by_table(MANY_BOARDS)
    boards_answered = 0
    for request, responses in zip(requests, solve_batch(channel, requests), strict=True):
        boards_answered += check_packed_by_table(request, responses)
    expect(boards_answered, MANY_BOARDS)


def a_pipeline_resumes_after_its_connection_is_lost(channel):
    requests = packed_by_table(100 * BOARDS_A_MESSAGE)
    way = unreliable.Unreliable(ADDRESS, bytes_until_cut=3_000_000, cuts=3)
    with grpc.insecure_channel(way.address) as breaking:
        stub = solver_pb2_grpc.SolverServiceStub(breaking)
        answered = 0
        for request, responses in resume.solve_all(stub, requests):
            expect(request.id, answered)
            check_packed_by_table(request, responses)
            answered += 1
    way.close()
    expect(answered, len(requests))
    expect(way.cuts_left, 0)


def writing_everything_before_reading_works_while_the_answers_are_few(channel):
    requests = packed_by_table(10 * 1000, boards_a_message=10)
    stream = stream_that_is_read_once_all_is_sent(channel, requests)
    expect([response.id for response in stream], list(range(1000)))


def writing_more_than_that_before_reading_is_aborted_and_never_hangs(channel):
    requests = packed_by_table(20 * MOST_UNREAD_BYTES // 24)
    stream = stream_that_is_read_once_all_is_sent(channel, requests)
    size = 0
    try:
        for response in stream:
            size += response.ByteSize()
    except grpc.RpcError as error:
        expect(error.code(), grpc.StatusCode.ABORTED)
    else:
        raise AssertionError(f"all of {size} bytes came")
    assert size >= MOST_UNREAD_BYTES, f"only {size} bytes came"


# Health and reflection


def health_of_server_and_service_is_serving(channel):
    health = health_pb2_grpc.HealthStub(channel)
    for name in ("", SERVICE):
        request = health_pb2.HealthCheckRequest(service=name)
        status = health.Check(request, timeout=TIMEOUT).status
        expect(status, health_pb2.HealthCheckResponse.SERVING)


def health_of_an_unknown_name_is_not_found(channel):
    health = health_pb2_grpc.HealthStub(channel)
    try:
        health.Check(health_pb2.HealthCheckRequest(service="nobody"), timeout=TIMEOUT)
    except grpc.RpcError as error:
        expect(error.code(), grpc.StatusCode.NOT_FOUND)
    else:
        raise AssertionError("Check knew a service that does not exist")


def health_watch_of_an_unknown_name_says_so_first(channel):
    health = health_pb2_grpc.HealthStub(channel)
    request = health_pb2.HealthCheckRequest(service="nobody")
    updates = health.Watch(request, timeout=TIMEOUT)
    status = next(updates).status
    expect(status, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN)
    updates.cancel()


def reflection_lists_the_service(channel):
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert SERVICE in services, f"{SERVICE} is not among {list(services)}"


# What the checks share


def solve(channel, board, goal=None, options=None):
    request = pb.SolveRequest(
        board=pb.Board(tiles=board),
        goal=pb.Board(tiles=goal) if goal else None,
        options=options,
    )
    return solver_pb2_grpc.SolverServiceStub(channel).Solve(request, timeout=TIMEOUT)


def solve_batch(channel, requests):
    return batch.solve_batch(solver_pb2_grpc.SolverServiceStub(channel), requests)


def stream_that_is_read_once_all_is_sent(channel, requests):
    all_sent = threading.Event()

    def send():
        yield from requests
        all_sent.set()

    stub = solver_pb2_grpc.SolverServiceStub(channel)
    stream = stub.SolveBatch(send(), timeout=120)
    expect(all_sent.wait(60), True)
    return stream


@cache
def random_boards():
    return puzzle.random_boards(BATCH_SIZE, SEED)


@cache
def optimal_lengths():
    distances = puzzle.distances_from_goal()
    expect(len(distances), 181_440)
    return distances


@cache
def batch_responses(channel, form):
    """The responses to all random boards; each form is asked only once."""
    boards = [board for board, _ in random_boards()]
    return solve_batch(channel, batch.requests_of(form, boards))


@cache
def batch_answers(channel, form):
    return [
        answer
        for responses in batch_responses(channel, form)
        for answer in batch.answers_of(form, responses)
    ]


@cache
def solvable_boards():
    """Every solvable board, as bytes back to back, and their lengths."""
    distances = optimal_lengths()
    return b"".join(map(bytes, distances)), list(distances.values())


def packed_by_table(count, boards_a_message=BOARDS_A_MESSAGE):
    """Requests for `count` solvable boards; ids count from 0."""
    tiles, lengths = solvable_boards()
    tiles *= -(-count // len(lengths))
    options = pb.SolveOptions(algorithm=pb.ALGORITHM_GOAL_TABLE)
    requests = []
    for first in range(0, count, boards_a_message):
        end = min(first + boards_a_message, count)
        packed = pb.PackedBoards(tiles=tiles[first * 9 : end * 9])
        request = pb.SolveBatchRequest(id=len(requests), packed=packed, options=options)
        requests.append(request)
    return requests


def check_packed_by_table(request, responses):
    """Hold every length, and one solution, against the truth; count the boards."""
    tiles = request.packed.tiles
    boards = [tuple(tiles[first : first + 9]) for first in range(0, len(tiles), 9)]
    results = [response.packed for response in responses]
    lengths = [length for packed in results for length in packed.lengths]
    outcomes = [outcome for packed in results for outcome in packed.outcomes]
    moves = "".join(packed.moves for packed in results)
    expect(outcomes, [pb.OUTCOME_SOLVED] * len(boards))
    expect(lengths == [optimal_lengths()[board] for board in boards], True)
    expect(len(moves), sum(lengths))
    expect(puzzle.replay(boards[-1], moves[len(moves) - lengths[-1] :]), puzzle.GOAL)
    return len(boards)


def check_answers(answers):
    """Hold an answer to each random board against what this client knows."""
    expect(len(answers), BATCH_SIZE)
    counts = {"SOLVED": 0, "UNSOLVABLE": 0, "ERROR": 0}
    for (board, fault), answer in zip(random_boards(), answers, strict=True):
        if fault:
            expected = batch.Answer("ERROR", reason=fault)
        elif not puzzle.is_solvable(board):
            expected = batch.Answer("UNSOLVABLE")
        else:
            length = optimal_lengths()[board]
            expected = batch.Answer("SOLVED", answer.moves, length)
            reached = puzzle.replay(board, answer.moves)
            assert reached == puzzle.GOAL, f"{board}: {answer.moves} ends at {reached}"
        assert answer == expected, f"{board}: expected {expected}, got {answer}"
        counts[answer.outcome] += 1
    assert min(counts.values()) > 100, f"not a mix: {counts}"


def details_of(error):
    """The BadRequest and the ErrorInfo that a failed call carries."""
    status = rpc_status.from_call(error)
    assert status is not None, "the status has no details"
    bad_request = error_details_pb2.BadRequest()
    error_info = error_details_pb2.ErrorInfo()
    for wanted in (bad_request, error_info):
        unpacked = [detail.Unpack(wanted) for detail in status.details]
        assert any(unpacked), f"no {wanted.DESCRIPTOR.full_name} in {status}"
    return bad_request, error_info


def only(responses):
    expect(len(responses), 1)
    return responses[0]


def expect(got, expected):
    assert got == expected, f"expected {expected!r}, got {got!r}"


CHECKS = [
    unary_call_solves_the_sample,
    unary_call_reaches_another_goal,
    unsolvable_is_an_answer_not_an_error,
    every_optimal_method_finds_the_same_length,
    malformed_board_is_invalid_argument_with_details,
    batch_of_lists_is_solved_optimally,
    batch_of_packed_boards_is_solved_optimally,
    list_and_packed_agree_in_lengths,
    large_answer_comes_in_several_responses,
    fault_of_one_board_touches_no_other,
    bad_request_in_a_stream_is_answered_and_the_stream_goes_on,
    too_many_boards_are_refused_and_the_stream_goes_on,
    request_without_boards_gets_its_id_back,
    stream_without_requests_ends_ok,
    a_million_packed_boards_are_answered_right,
    a_pipeline_resumes_after_its_connection_is_lost,
    writing_everything_before_reading_works_while_the_answers_are_few,
    writing_more_than_that_before_reading_is_aborted_and_never_hangs,
    health_of_server_and_service_is_serving,
    health_of_an_unknown_name_is_not_found,
    health_watch_of_an_unknown_name_says_so_first,
    reflection_lists_the_service,
]


def main():
    failed = 0
    with grpc.insecure_channel(ADDRESS) as channel:
        for check in CHECKS:
            try:
                check(channel)
            except Exception as error:  # a failed check must not hide the others
                failed += 1
                print(f"FAILED {check.__name__}: {error}", flush=True)
                traceback.print_exc(file=sys.stdout)
            else:
                print(f"ok {check.__name__}", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
