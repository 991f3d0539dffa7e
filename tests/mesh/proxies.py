"""The ways to three replicas: each proxy with its configuration of deploy/."""

import json
import os
import pathlib
import re
import socket
import urllib.request

import grpc

from process import Process, accepts, free_port, soon

DEPLOY = pathlib.Path(__file__).resolve().parents[2] / "deploy"
SERVICE = "loyd.v1.SolverService"

# Each channel connects for itself: a check's connections are its own.
OWN_CONNECTIONS = ("grpc.use_local_subchannel_pool", 1)


class Proxy:
    """A proxy before the replicas, by deploy/'s file with ports and paths changed."""

    file = None
    port_in_file = None

    def __init__(self, work, replicas):
        self.port = free_port()
        self.replicas = replicas
        self.config = work / self.file
        self.log = work / f"{self.name}.log"
        self.log.unlink(missing_ok=True)
        changes = {self.port_in_file: str(self.port)}
        for number, replica in enumerate(replicas, 1):
            changes[f"5005{number}"] = str(replica.port)
            changes[f"909{number}"] = str(replica.admin_port)
        self.substitute(changes | self.other_changes(work))
        self.process = Process(self.command(), self.log)
        soon(f"{self.name} listens", self.is_up)

    @property
    def name(self):
        return type(self).__name__.lower()

    def substitute(self, changes):
        """Writes the file with all changes made at once, each of them whole words."""
        pattern = "|".join(rf"(?<![\w/]){re.escape(old)}(?!\w)" for old in changes)
        text = (DEPLOY / self.file).read_text()
        self.config.write_text(re.sub(pattern, lambda found: changes[found[0]], text))

    def other_changes(self, work):
        return {}

    def is_up(self):
        assert self.process.is_running(), f"{self.name} ended: {self.process.text()[-2000:]}"
        return accepts(self.port)

    def channel(self):
        return grpc.insecure_channel(f"127.0.0.1:{self.port}", options=[OWN_CONNECTIONS])

    def has_all(self):
        """Whether it knows that each replica serves, where it can tell."""
        return not any(self.has_taken_out(replica) for replica in self.replicas)

    def end(self):
        self.process.end()


class Envoy(Proxy):
    file = "envoy.yaml"
    port_in_file = "8080"
    binary = None

    def other_changes(self, work):
        self.admin_port = free_port()
        return {"9901": str(self.admin_port)}

    def command(self):
        # No base id: other processes of Envoy may run on this machine.
        return [self.binary, "-c", self.config, "--use-dynamic-base-id", "--concurrency", "2",
                "--log-level", "warning"]

    def is_up(self):
        return super().is_up() and self.has_all()

    def has_taken_out(self, replica):
        flags = self.admin("/clusters?format=json")
        for host in json.loads(flags)["cluster_statuses"][0]["host_statuses"]:
            if host["address"]["socket_address"]["port_value"] == replica.port:
                return host["health_status"].get("failed_active_health_check", False)
        raise AssertionError(f"Envoy does not know {replica.address}")

    def counter(self, name):
        """A counter of the cluster, such as `upstream_rq_retry`."""
        text = self.admin(f"/stats?filter=^cluster.loyd.{name}$")
        return int(text.split(":")[1])

    def admin(self, path):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=5) as page:
            return page.read().decode()


class Nginx(Proxy):
    file = "nginx.conf"
    port_in_file = "8081"

    def other_changes(self, work):
        self.errors = work / "nginx-error.log"
        self.errors.unlink(missing_ok=True)
        return {"/run/nginx.pid": str(work / "nginx.pid"), "/var/log/nginx/error.log": str(self.errors)}

    def command(self):
        return ["nginx", "-c", self.config, "-g", "daemon off;"]

    def failures(self, replica):
        """How often it could not reach the replica."""
        upstream = f'upstream: "grpc://{replica.address}"'
        return sum(upstream in line for line in self.errors.read_text().splitlines())

    def has_taken_out(self, replica):
        # The first failure takes it out; nginx says nothing of the end of that.
        return self.failures(replica) > 0

    def has_all(self):
        return True


class Haproxy(Proxy):
    file = "haproxy.cfg"
    port_in_file = "8082"

    def other_changes(self, work):
        # Relative: a socket's path has at most 107 bytes.
        self.socket = os.path.relpath(work / "haproxy.sock")
        return {"/run/haproxy/admin.sock": f"unix@{self.socket}"}

    def command(self):
        return ["haproxy", "-db", "-f", self.config]

    def is_up(self):
        return super().is_up() and self.has_all()

    def has_taken_out(self, replica):
        name = f"loyd-{self.replicas.index(replica) + 1}"
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(self.socket)
            connection.sendall(b"show stat\n")
            text = b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()
        header, *rows = [line.split(",") for line in text.splitlines() if "," in line]
        [row] = [row for row in rows if row[0] == "loyd" and row[1] == name]
        return not row[header.index("status")].startswith("UP")


class Direct:
    """No proxy: grpcio balances, watches health and retries."""

    name = "grpcio"
    config = {
        "loadBalancingConfig": [{"round_robin": {}}],
        # A replica that says NOT_SERVING gets no more calls.
        "healthCheckConfig": {"serviceName": SERVICE},
        "methodConfig": [
            {
                "name": [{"service": SERVICE, "method": "Solve"}],
                "retryPolicy": {
                    "maxAttempts": 4,
                    "initialBackoff": "0.1s",
                    "maxBackoff": "1s",
                    "backoffMultiplier": 2,
                    "retryableStatusCodes": ["UNAVAILABLE"],
                },
            }
        ],
        # No retries while more than half of the calls fail.
        "retryThrottling": {"maxTokens": 100, "tokenRatio": 0.5},
    }

    def __init__(self, _, replicas):
        self.target = "ipv4:" + ",".join(replica.address for replica in replicas)

    def channel(self):
        options = [
            OWN_CONNECTIONS,
            # Else it is the list of addresses, which is none: h2 resets such calls.
            ("grpc.default_authority", "loyd"),
            ("grpc.service_config", json.dumps(self.config)),
        ]
        return grpc.insecure_channel(self.target, options=options)

    def has_taken_out(self, replica):
        # It saw the connection end, and tells nobody.
        return True

    def has_all(self):
        return True

    def end(self):
        pass
