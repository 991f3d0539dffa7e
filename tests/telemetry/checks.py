"""Checks the metrics and the traces of Loyd servers that it starts.

    python checks.py target/release/loyd promtool

Each check is a function. It prints `ok <name>` or `FAILED <name>` with the
reason.
"""

import queue
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
import urllib.request
from concurrent import futures
from contextlib import contextmanager

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as trace_pb
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as trace_grpc
from opentelemetry.proto.trace.v1 import trace_pb2

from loyd.v1 import solver_pb2 as pb
from loyd.v1 import solver_pb2_grpc

SERVER, PROMTOOL = sys.argv[1:]
SAMPLE = (2, 3, 4, 1, 5, 0, 7, 6, 8)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SAMPLED = ("traceparent", f"00-{TRACE}-{PARENT}-01")
NOT_SAMPLED = ("traceparent", f"00-{TRACE}-{PARENT}-00")
PATIENCE = 30  # seconds for what must come
# What the end of a server waits for a collector at most (3 s), and what a busy machine adds.
MOST_SECONDS_TO_END = 6


class Collector(trace_grpc.TraceServiceServicer):
    """Keeps the spans that it is sent."""

    def __init__(self):
        self.spans = queue.Queue()

    def Export(self, request, context):
        for resource_spans in request.resource_spans:
            for scope_spans in resource_spans.scope_spans:
                for span in scope_spans.spans:
                    self.spans.put((resource_spans.resource, span))
        return trace_pb.ExportTraceServiceResponse()


@contextmanager
def collector(port=0):
    kept = Collector()
    server = grpc.server(futures.ThreadPoolExecutor(2))
    trace_grpc.add_TraceServiceServicer_to_server(kept, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    try:
        yield f"http://127.0.0.1:{port}", kept.spans
    finally:
        server.stop(None).wait()


class Loyd:
    """A server, and a channel to it."""

    def __init__(self, *options):
        arguments = [SERVER, "serve", "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*arguments, *options],
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        address = self.line("listening on http://")
        self.admin = self.line("admin on ")
        self.channel = grpc.insecure_channel(address)
        self.solver = solver_pb2_grpc.SolverServiceStub(self.channel)

    def line(self, begin):
        line = self.process.stdout.readline().strip()
        assert line.startswith(begin), line
        return line.removeprefix(begin)

    def lines(self, text):
        """The lines of its log with this text."""
        self.log.seek(0)
        return [line for line in self.log if text in line]

    def metrics(self):
        with urllib.request.urlopen(f"{self.admin}/metrics", timeout=PATIENCE) as response:
            expect(response.headers["content-type"], "text/plain; version=0.0.4")
            return response.read().decode()

    def spans(self, outcome):
        series = f'loyd_spans_total{{outcome="{outcome}"}} '
        for line in self.metrics().splitlines():
            if line.startswith(series):
                return int(line.removeprefix(series))
        raise AssertionError(f"no {series}")

    def stop(self):
        """Ends it by SIGTERM; gives the seconds that took."""
        self.channel.close()
        asked = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        expect(self.process.wait(PATIENCE), 0)
        return time.monotonic() - asked


@contextmanager
def loyd(*options):
    server = Loyd(*options)
    try:
        yield server
    except Exception:
        print("".join(server.lines("")[-20:]))
        raise
    finally:
        server.process.kill()
        server.process.wait()
        server.process.stdout.close()
        server.log.close()


def solve(server, metadata=(), tiles=SAMPLE):
    request = pb.SolveRequest(board=pb.Board(tiles=tiles))
    return server.solver.Solve(request, metadata=metadata, timeout=PATIENCE)


def solve_batch(server, metadata=()):
    packed = pb.PackedBoards(tiles=bytes(SAMPLE) * 10)
    requests = [pb.SolveBatchRequest(id=number, packed=packed) for number in range(3)]
    return list(server.solver.SolveBatch(iter(requests), metadata=metadata, timeout=PATIENCE))


# Metrics


def promtool_finds_nothing_to_say():
    with loyd("--drain-delay=600s") as server:
        # Before the first call, after some of every kind, and while it stops.
        promtool_takes(server.metrics())
        solve(server)
        solve_batch(server)
        try:
            solve(server, tiles=(1, 2))
        except grpc.RpcError as error:
            expect(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        promtool_takes(server.metrics())
        server.process.send_signal(signal.SIGTERM)
        soon(lambda: "\nloyd_draining 1\n" in server.metrics())
        promtool_takes(server.metrics())


def promtool_takes(text):
    check = subprocess.run(
        [PROMTOOL, "check", "metrics"],
        input=text.encode(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=PATIENCE,
    )
    expect((check.returncode, check.stdout.decode()), (0, ""))


# Traces


def a_call_continues_the_trace_of_its_caller():
    with collector() as (endpoint, spans), loyd(f"--otlp-endpoint={endpoint}") as server:
        solve(server, [SAMPLED, ("x-request-id", "order-66")])
        resource, span = spans.get(timeout=PATIENCE)
        expect(attributes(resource)["service.name"], "loyd")
        expect(span.name, "loyd.v1.SolverService/Solve")
        expect(span.kind, trace_pb2.Span.SPAN_KIND_SERVER)
        expect(span.trace_id.hex(), TRACE)
        expect(span.parent_span_id.hex(), PARENT)
        expect(span.start_time_unix_nano < span.end_time_unix_nano, True)
        expect(abs(span.end_time_unix_nano / 1e9 - time.time()) < PATIENCE, True)
        found = attributes(span)
        for name, value in {
            "rpc.system": "grpc",
            "rpc.service": "loyd.v1.SolverService",
            "rpc.method": "Solve",
            "rpc.grpc.status_code": 0,
            "loyd.boards": 1,
            "loyd.request_id": "order-66",
        }.items():
            expect((name, found[name]), (name, value))
        expect(found["network.peer.address"], "127.0.0.1")
        expect(0 < found["network.peer.port"] < 65_536, True)


def what_other_systems_say_of_a_trace_is_passed_on():
    with collector() as (endpoint, spans), loyd(f"--otlp-endpoint={endpoint}") as server:
        for states, passed_on in [
            ([], ""),
            (["rojo=00f067aa0ba902b7"], "rojo=00f067aa0ba902b7"),
            (["rojo=1,congo=t61rcWkgMzE", "other@vendor=x"], "rojo=1,congo=t61rcWkgMzE,other@vendor=x"),
            (["no list"], ""),
            (["rojo=" + 600 * "x"], ""),
        ]:
            solve(server, [SAMPLED, *(("tracestate", state) for state in states)])
            _, span = spans.get(timeout=PATIENCE)
            expect((states, span.trace_state), (states, passed_on))


def a_stream_is_one_span_and_faults_are_told():
    with collector() as (endpoint, spans), loyd(f"--otlp-endpoint={endpoint}") as server:
        expect(len(solve_batch(server)), 3)
        _, span = spans.get(timeout=PATIENCE)
        expect(span.name, "loyd.v1.SolverService/SolveBatch")
        expect(attributes(span)["loyd.boards"], 30)
        # Without a caller's trace it begins one.
        expect(span.parent_span_id, b"")
        expect(len(span.trace_id), 16)
        try:
            solve(server, tiles=(1, 2))
        except grpc.RpcError as error:
            expect(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
        _, span = spans.get(timeout=PATIENCE)
        expect(attributes(span)["rpc.grpc.status_code"], 3)
        # The caller's fault is no error of the server.
        expect(span.status.code, trace_pb2.Status.STATUS_CODE_UNSET)


def a_trace_that_is_not_sampled_is_not_sent():
    with collector() as (endpoint, spans), loyd(f"--otlp-endpoint={endpoint}") as server:
        solve(server, [NOT_SAMPLED])
        solve(server, [SAMPLED, ("x-request-id", "the second")])
        _, span = spans.get(timeout=PATIENCE)
        expect(attributes(span)["loyd.request_id"], "the second")


def what_is_left_at_the_end_is_sent():
    with collector() as (endpoint, spans), loyd(f"--otlp-endpoint={endpoint}") as server:
        for _ in range(100):
            solve(server)
        server.stop()
        expect(spans.qsize(), 100)


def a_collector_that_is_not_there_changes_nothing():
    with socket.socket() as unused:
        # Bound and not listening: whoever connects is refused.
        unused.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{unused.getsockname()[1]}"
        calls_go_on(endpoint)


def a_collector_that_says_nothing_changes_nothing():
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        calls_go_on(f"http://127.0.0.1:{deaf.getsockname()[1]}")


def calls_go_on(endpoint):
    with loyd(f"--otlp-endpoint={endpoint}") as server:
        # More than may wait to be sent.
        for _ in range(3_000):
            expect(solve(server).solution.length, 19)
        soon(lambda: server.spans("failed") > 0)
        expect(server.spans("sent"), 0)
        taken = server.stop()
        expect((taken < MOST_SECONDS_TO_END, taken), (True, taken))
        # One line for all that failed, and none of OpenTelemetry's own.
        expect(len(server.lines("cannot send traces")), 1)
        expect(server.lines("opentelemetry"), [])


def an_outage_is_told_when_it_begins_and_when_it_is_over():
    with collector() as (endpoint, spans):
        port = endpoint.rsplit(":", 1)[1]
    with loyd(f"--otlp-endpoint={endpoint}") as server:
        for times in range(1, 3):
            solve(server)
            soon(lambda: len(server.lines("cannot send traces")) == times)
            with collector(port) as (_, spans):
                # The channel may take a while to connect again.
                soon(lambda: solve(server) and server.spans("sent") > 0)
                spans.get(timeout=PATIENCE)
                soon(lambda: len(server.lines("traces are sent again")) == times)
            sent = server.spans("sent")
            soon(lambda: solve(server) and server.spans("failed") > 0)
            expect(server.spans("sent") >= sent, True)
            soon(lambda: len(server.lines("cannot send traces")) == times + 1)


def what_is_no_collector_is_refused():
    for url in (
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:4317/v1/traces",
        "http://127.0.0.1:4317?x=1",
        "http://127.0.0.1:4317#x",
        "http://u:p@127.0.0.1:4317",
        "http://:4317",
        "https://127.0.0.1:4317",
        "127.0.0.1:4317",
        "",
    ):
        for source in ([f"--otlp-endpoint={url}"], {"LOYD_OTLP_ENDPOINT": url}):
            flags, variables = (source, {}) if isinstance(source, list) else ([], source)
            ended = subprocess.run(
                [SERVER, "serve", "--listen=127.0.0.1:0", *flags],
                env=variables,
                capture_output=True,
                timeout=PATIENCE,
            )
            expect((url, ended.returncode, ended.stdout), (url, 2, b""))
            assert b"http://127.0.0.1:4317" in ended.stderr, ended.stderr


def soon(condition):
    """Waits until the condition holds."""
    ends = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < ends, f"not within {PATIENCE} s"
        time.sleep(0.05)


def attributes(holder):
    return {
        attribute.key: getattr(attribute.value, attribute.value.WhichOneof("value"))
        for attribute in holder.attributes
    }


def expect(found, wanted):
    assert found == wanted, f"found {found!r}, wanted {wanted!r}"


CHECKS = [
    promtool_finds_nothing_to_say,
    a_call_continues_the_trace_of_its_caller,
    what_other_systems_say_of_a_trace_is_passed_on,
    a_stream_is_one_span_and_faults_are_told,
    a_trace_that_is_not_sampled_is_not_sent,
    what_is_left_at_the_end_is_sent,
    a_collector_that_is_not_there_changes_nothing,
    a_collector_that_says_nothing_changes_nothing,
    an_outage_is_told_when_it_begins_and_when_it_is_over,
    what_is_no_collector_is_refused,
]


def main():
    failed = 0
    for check in CHECKS:
        try:
            check()
            print(f"ok {check.__name__}", flush=True)
        except Exception:
            failed += 1
            print(f"FAILED {check.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{len(CHECKS) - failed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
