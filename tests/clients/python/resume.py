"""A pipeline that outlives its connection: each request is answered once."""

import time

import grpc


def solve_all(stub, requests, attempts=10):
    """Yield each request with its responses, over as many streams as it takes.

    Give up when so many in a row brought no whole answer: some 40 s after the first.
    """
    done = failures = 0  # so many requests are answered
    while done < len(requests):
        responses = []
        try:
            for response in stub.SolveBatch(iter(requests[done:])):
                responses.append(response)
                if not response.more:
                    yield requests[done], responses
                    done += 1
                    failures, responses = 0, []
        except grpc.RpcError as error:
            failures += 1
            if not is_lost(error) or failures == attempts:
                raise
            # What was answered in part is asked again.
            time.sleep(min(0.1 * 2**failures, 10))


def is_lost(error):
    """Whether the stream ended by the way to the server, and not by what was sent."""
    if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED):
        return True
    # A proxy whose replica died in the middle of an answer has no status to pass on.
    return "RST_STREAM" in (error.details() or "")
