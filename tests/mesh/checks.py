"""Three replicas of Loyd, reached through real proxies and by grpcio's own balancing.

    python checks.py LOYD ENVOY WORK

Each check prints `ok <way> <check>` or `FAILED ...` with the reason.
"""

import contextlib
import itertools
import pathlib
import random
import signal
import sys
import threading
import time
import traceback
from concurrent import futures

import grpc

import batch
import proxies
from load import BOARDS, Load
from loyd.v1 import solver_pb2 as pb
from loyd.v1 import solver_pb2_grpc
from process import PATIENCE, soon
from replica import DRAIN_DELAY, Replica

# The slowest: 0.2 ms a board.
BFS = pb.SolveOptions(algorithm=pb.ALGORITHM_BFS, detail=pb.DETAIL_LENGTH_ONLY)
EXTRA = 3  # seconds of load after the event that a check is about


# What holds for every way


def calls_spread_over_the_replicas(way, replicas):
    before = counts(replicas, "Solve")
    load = Load(way, 0, streams=0)
    time.sleep(2)
    load.stop()
    assert not load.failures, load.failures[:3]
    check_shares(before, counts(replicas, "Solve"))


def long_streams_spread_over_the_replicas(way, replicas):
    before = counts(replicas, "SolveBatch")
    load = Load(way, 2, unary=0)
    load.stop()
    assert load.codes_of_streams() == {"OK"}, load.stream_ends
    check_shares(before, counts(replicas, "SolveBatch"))


def check_shares(before, after):
    """Each has answered at least half of what is fair."""
    shares = [now - then for now, then in zip(after, before, strict=True)]
    print(f"   {shares}")
    assert min(shares) >= sum(shares) / len(shares) / 2, shares


def drain_fails_no_call_and_ends_streams_for_a_retry(way, replicas):
    replica = replicas[0]
    load = Load(way, 1 + DRAIN_DELAY + EXTRA)
    time.sleep(1)
    replica.terminate()
    code = replica.process.wait()
    load.stop()
    print(f"   {load.answered} calls, streams: {ends(load)}")
    assert not load.failures, load.failures[:3]
    assert load.codes_of_streams() == {"OK", "UNAVAILABLE"}, load.stream_ends
    assert code == 0, f"exit code {code}"
    assert "and cut what was left" not in replica.process.text(), "calls were cut"
    bring_back(way, replicas, replica)


def killed_replica_is_taken_out(way, replicas):
    replica = replicas[1]
    load = Load(way, 2 + EXTRA)
    time.sleep(1)
    replica.kill()
    killed = time.monotonic()
    soon(f"{way.name} has taken it out", lambda: way.has_taken_out(replica))
    out = time.monotonic()
    load.stop()
    print(f"   out after {out - killed:.1f} s, {len(load.failures)} of {load.answered} calls failed,"
          f" streams: {ends(load)}")
    unavailable = grpc.StatusCode.UNAVAILABLE
    assert all(code == unavailable for _, code, _ in load.failures), load.failures[:3]
    # The calls that were running on it end when their connection does.
    late = [failure for failure in load.failures if failure[0] > out + 0.5]
    assert not late, late[:3]
    bring_back(way, replicas, replica)


def deadline_reaches_the_replica(way, replicas):
    def ended():
        return sum(counts(replicas, "SolveBatch", "DeadlineExceeded"))

    before = ended()
    with way.channel() as channel:
        stub = solver_pb2_grpc.SolverServiceStub(channel)
        boards = pb.BoardList(boards=[pb.Board(tiles=board) for board in BOARDS * 8])
        request = pb.SolveBatchRequest(id=1, list=boards, options=BFS)
        # By hand: the client has no deadline of its own, which would come first.
        stream = stub.SolveBatch(iter([request]), metadata=[("grpc-timeout", "500m")])
        timer = threading.Timer(PATIENCE, stream.cancel)
        timer.start()
        try:
            list(stream)
            raise AssertionError("16,000 searches within half a second")
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
        finally:
            timer.cancel()
    soon("the replica has ended the call at its deadline", lambda: ended() > before, 5)


# What Envoy and grpcio do besides: nginx and HAProxy see no grpc-status


def overloaded_replica_costs_no_call(way, replicas):
    """One of three refuses calls with UNAVAILABLE, and they are tried at another."""
    with overloaded(way, replicas[2:]):
        before = replicas[2].calls("Solve", "Unavailable")
        # As many at a time as may be tried again at a time, whatever the budget.
        answered, failures = burst(way, threads=3)
        refused = replicas[2].calls("Solve", "Unavailable") - before
    print(f"   {refused} refused, {len(failures)} of {answered} calls failed")
    assert refused > 20, f"only {refused} were refused: the check is void"
    assert not failures, failures[:3]


def overloaded_service_is_not_asked_much_more(way, replicas):
    """All refuse: what is tried again stays within Envoy's retry budget."""
    with overloaded(way, replicas):
        before = sum(counts(replicas, "Solve", "Unavailable"))
        overflow = way.counter("upstream_rq_retry_overflow")
        _, failures = burst(way, threads=24)
        refused = sum(counts(replicas, "Solve", "Unavailable")) - before
        overflow = way.counter("upstream_rq_retry_overflow") - overflow
    print(f"   {len(failures)} calls failed after {refused} tries; {overflow} were over the budget")
    assert {code for code, _ in failures} == {grpc.StatusCode.UNAVAILABLE}, failures[:3]
    assert overflow > 0, "the budget was never used up: the check is void"
    # Without a budget it is three.
    assert refused < 2 * len(failures), "more than one retry a call"


def checks_of(way):
    yield calls_spread_over_the_replicas
    yield long_streams_spread_over_the_replicas
    yield deadline_reaches_the_replica
    yield drain_fails_no_call_and_ends_streams_for_a_retry
    yield killed_replica_is_taken_out
    if way.name in ("envoy", "grpcio"):
        yield overloaded_replica_costs_no_call
    if way.name == "envoy":
        yield overloaded_service_is_not_asked_much_more


# Helpers


def counts(replicas, method, code=None):
    return [replica.calls(method, code) for replica in replicas]


def ends(load):
    codes = [code.name for code, _ in load.stream_ends]
    return {code: codes.count(code) for code in sorted(set(codes))}


def bring_back(way, replicas, replica):
    """Starts it again, and waits until the way sends calls there."""
    replica.start()
    soon(f"{way.name} knows all replicas", way.has_all)
    with way.channel() as channel:
        stub = solver_pb2_grpc.SolverServiceStub(channel)

        def gets_calls():
            for board in BOARDS[:10]:
                stub.Solve(pb.SolveRequest(board=pb.Board(tiles=board)), timeout=10)
            return replica.calls("Solve") > 0

        soon(f"calls reach {replica.address} again", gets_calls)


@contextlib.contextmanager
def overloaded(way, replicas):
    """Makes these refuse most calls meanwhile: little may wait there, and a stream does."""
    try:
        for replica in replicas:
            replica.kill()
            replica.start("--compute-threads=1", "--queued-work=1ms")
        with contextlib.ExitStack() as busy:
            for replica in replicas:
                busy.enter_context(kept_busy(replica))
            soon(f"{way.name} knows all replicas", way.has_all)
            yield
    finally:
        # Whatever came of it: the next check is to find them as they were.
        for replica in replicas:
            replica.kill()
            bring_back(way, replicas, replica)


@contextlib.contextmanager
def kept_busy(replica):
    """Has a stream of slow searches there, past every proxy."""
    request = batch.packed_request(1, BOARDS)
    request.options.CopyFrom(BFS)
    with grpc.insecure_channel(replica.address) as channel:
        stub = solver_pb2_grpc.SolverServiceStub(channel)
        stream = stub.SolveBatch(itertools.repeat(request))
        # Its answers are short, and wait in the client.
        try:
            soon(f"{replica.address} refuses calls", lambda: solve(stub, BOARDS[0]))
            yield
        finally:
            stream.cancel()


def burst(way, threads):
    """Calls from so many threads for two seconds: the number answered, and the failures."""
    ends = time.monotonic() + 2

    def run():
        results = []
        while time.monotonic() < ends:
            results.append(solve(stub, random.choice(BOARDS)))
        return results

    with way.channel() as channel, futures.ThreadPoolExecutor(threads) as pool:
        stub = solver_pb2_grpc.SolverServiceStub(channel)
        runs = [pool.submit(run) for _ in range(threads)]
        results = [result for done in runs for result in done.result()]
    failures = [result for result in results if result is not None]
    return len(results) - len(failures), failures


def solve(stub, board):
    """None where it was answered, else the code and its text."""
    try:
        stub.Solve(pb.SolveRequest(board=pb.Board(tiles=board)), timeout=10)
    except grpc.RpcError as error:
        return error.code(), error.details()
    return None


def main():
    server, envoy, work = sys.argv[1:]
    work = pathlib.Path(work).resolve()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    proxies.Envoy.binary = envoy
    replicas = [Replica(server, work, number) for number in (1, 2, 3)]
    passed = failed = 0
    try:
        for replica in replicas:
            replica.start()
        for kind in (proxies.Envoy, proxies.Nginx, proxies.Haproxy, proxies.Direct):
            way = kind(work, replicas)
            print(f"== {way.name}", flush=True)
            try:
                for check in checks_of(way):
                    name = f"{way.name} {check.__name__}"
                    started = time.monotonic()
                    try:
                        check(way, replicas)
                    except Exception:  # noqa: BLE001: reported
                        print(f"FAILED {name}\n{traceback.format_exc()}", flush=True)
                        failed += 1
                        break  # a replica may be missing
                    print(f"ok {name} ({time.monotonic() - started:.1f} s)", flush=True)
                    passed += 1
            finally:
                way.end()
            for replica in replicas:
                if not replica.process.is_running():
                    replica.start()
    finally:
        for replica in replicas:
            if replica.process:
                replica.process.end()
    print("== all ways")
    print(f"{passed} passed, {failed} failed")
    sys.exit(failed > 0)


main()
