"""Solving a stream of batches: both forms, and putting the answers together.

SolveBatch answers each request by one or more responses. `solve_batch` sends
the requests, holds every response against the contract and returns, for each
request, its responses in order. The two `answers_of_...` functions turn those
into one `Answer` a board, so that a check need not know the form.
"""

from dataclasses import dataclass

from loyd.v1 import solver_pb2 as pb

MAX_REQUEST_BYTES = 4 * 1024 * 1024
MAX_RESPONSE_BYTES = 1024 * 1024
MAX_BOARDS = {"list": 16_384, "packed": 65_536}
TEXT_ERRORS = 64


@dataclass
class Answer:
    """What came of one board: an outcome with its moves, or a fault's reason."""

    outcome: str
    moves: str = ""
    length: int = 0
    reason: str = ""


def list_request(request_id, boards):
    """One request with each board as a message."""
    messages = [pb.Board(tiles=board) for board in boards]
    return pb.SolveBatchRequest(id=request_id, list=pb.BoardList(boards=messages))


def packed_request(request_id, boards):
    """One request with all boards in one string of bytes, a byte a tile."""
    tiles = b"".join(bytes(board) for board in boards)
    return pb.SolveBatchRequest(id=request_id, packed=pb.PackedBoards(tiles=tiles))


def requests_of(form, boards):
    """Cut the boards into the fewest requests; ids count from 1."""
    make_request = {"list": list_request, "packed": packed_request}[form]
    size = MAX_BOARDS[form]
    return [
        make_request(first // size + 1, boards[first : first + size])
        for first in range(0, len(boards), size)
    ]


def solve_batch(stub, requests, timeout=300):
    """Send the requests and return the list of responses to each of them."""
    for request in requests:
        assert request.ByteSize() < MAX_REQUEST_BYTES, "a server may refuse this"
    # grpcio sends from a thread of its own while this one reads the answers:
    # a client that first sent everything and only then read could deadlock.
    stream = stub.SolveBatch(iter(requests), timeout=timeout)
    answered = [_responses_to(request, stream) for request in requests]
    extra = list(stream)  # also raises if the status is not OK
    assert not extra, f"{len(extra)} responses after the last request's last"
    return answered


def _responses_to(request, stream):
    """Read the responses to one request, up to the one with `more` unset."""
    responses = []
    boards_answered = 0
    while True:
        response = next(stream, None)
        where = f"request {request.id}, response {len(responses)}"
        assert response is not None, f"{where}: the stream ended before it"
        assert response.id == request.id, f"{where}: has id {response.id}"
        assert response.ByteSize() <= MAX_RESPONSE_BYTES, (
            f"{where}: {response.ByteSize()} bytes"
        )
        assert response.first_board == boards_answered, (
            f"{where}: first_board {response.first_board}, not {boards_answered}"
        )
        boards_here = _number_of_boards(response)
        assert boards_here > 0 or not response.more, f"{where}: empty, with more"
        boards_answered += boards_here
        responses.append(response)
        if not response.more:
            return responses


def _number_of_boards(response):
    form = response.WhichOneof("results")
    if form == "list":
        return len(response.list.results)
    if form == "packed":
        return len(response.packed.outcomes)
    return 0


def answers_of(form, responses):
    """One Answer a board, from all responses to one request of the form."""
    for response in responses:
        assert response.WhichOneof("results") == form, response.WhichOneof("results")
    if form == "list":
        return _answers_of_list(responses)
    return _answers_of_packed(responses)


def _answers_of_list(responses):
    answers = []
    for response in responses:
        for result in response.list.results:
            if result.WhichOneof("result") == "error":
                assert result.error.message, "an error in a list has a text"
                answers.append(Answer("ERROR", reason=reason_name(result.error)))
            else:
                answers.append(_answer_of_solution(result.solution))
    return answers


def _answer_of_solution(solution):
    assert solution.length == len(solution.moves), solution
    assert solution.optimal == (solution.outcome == pb.OUTCOME_SOLVED), solution
    assert solution.stats.algorithm == pb.ALGORITHM_BIDIRECTIONAL_BFS, solution
    assert not solution.stats.HasField("elapsed"), "only unary calls and totals"
    return Answer(outcome_name(solution.outcome), solution.moves, solution.length)


def _answers_of_packed(responses):
    answers = []
    texts_seen = []
    for response in responses:
        packed = response.packed
        assert len(packed.lengths) == len(packed.outcomes), "a length a board"
        assert sum(packed.lengths) == len(packed.moves), "moves as long as told"
        totals = packed.totals
        assert packed.all_optimal, "the default method proves every solution"
        assert totals.algorithm == pb.ALGORITHM_BIDIRECTIONAL_BFS, totals
        assert totals.expanded > 0 and totals.generated > 0, totals
        assert totals.HasField("elapsed"), totals

        errors = {error.index: error.error for error in packed.errors}
        assert list(errors) == [
            index
            for index, outcome in enumerate(packed.outcomes)
            if outcome == pb.OUTCOME_ERROR
        ], "`errors` names exactly the boards whose outcome is an error, in order"
        texts_seen += [bool(error.message) for error in errors.values()]

        start = 0
        columns = zip(packed.outcomes, packed.lengths, strict=True)
        for index, (outcome, length) in enumerate(columns):
            moves = packed.moves[start : start + length]
            start += length
            reason = reason_name(errors[index]) if index in errors else ""
            answers.append(Answer(outcome_name(outcome), moves, length, reason))
    with_text = min(len(texts_seen), TEXT_ERRORS)
    assert texts_seen == [True] * with_text + [False] * (len(texts_seen) - with_text), (
        f"exactly the first {TEXT_ERRORS} errors of a request carry a text"
    )
    return answers


def outcome_name(outcome):
    """SOLVED for OUTCOME_SOLVED; a number this client does not know fails."""
    return pb.Outcome.Name(outcome).removeprefix("OUTCOME_")


def reason_name(error):
    """DUPLICATE_TILE for an error with ERROR_REASON_DUPLICATE_TILE."""
    return pb.ErrorReason.Name(error.reason).removeprefix("ERROR_REASON_")
