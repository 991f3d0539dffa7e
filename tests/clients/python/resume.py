"""A pipeline that outlives its connection: each request is answered once."""

import time

import grpc


def solve_all(stub, requests):
    """Yield each request with its responses, over as many streams as it takes."""
    done = 0  # so many requests are answered
    while done < len(requests):
        responses = []
        try:
            for response in stub.SolveBatch(iter(requests[done:])):
                responses.append(response)
                if not response.more:
                    yield requests[done], responses
                    done += 1
                    responses = []
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.ABORTED):
                raise
            time.sleep(0.1)  # what was answered in part is asked again
