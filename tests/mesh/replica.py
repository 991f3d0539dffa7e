"""A replica of Loyd, started and stopped as an operator's platform would."""

import http.client
import re
import signal

from process import Process, free_port, soon

HANDLED = r"^grpc_server_handled_total\{(.*)\} (\S+)$"
DRAIN_DELAY = 3  # seconds: more than the two checks that each proxy here takes to notice


class Replica:
    """Keeps its ports and its log over restarts."""

    def __init__(self, server, work, number):
        self.server = server
        self.log = work / f"loyd-{number}.log"
        self.log.unlink(missing_ok=True)
        self.port = free_port()
        self.admin_port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.process = None

    def start(self, *options):
        command = [
            self.server,
            "serve",
            f"--listen={self.address}",
            f"--admin-listen=127.0.0.1:{self.admin_port}",
            f"--drain-delay={DRAIN_DELAY}s",
            "--drain-timeout=10s",
            *options,
        ]
        self.process = Process(command, self.log)
        soon(f"{self.address} is ready", lambda: self._get("/readyz")[0] == 200)

    def terminate(self):
        self.process.signal(signal.SIGTERM)

    def kill(self):
        self.process.signal(signal.SIGKILL)
        self.process.wait()

    def calls(self, method, code=None):
        """How many calls it has answered, by its own metrics."""
        status, text = self._get("/metrics")
        assert status == 200, f"/metrics of {self.address}: {status}"
        return sum(
            int(float(value))
            for labels, value in re.findall(HANDLED, text, re.MULTILINE)
            if f'grpc_method="{method}"' in labels
            and (code is None or f'grpc_code="{code}"' in labels)
        )

    def _get(self, path):
        """Status and text of a page of the admin listener; 0 where none answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.admin_port, timeout=5)
        try:
            connection.request("GET", path)
            response = connection.getresponse()
            return response.status, response.read().decode()
        except OSError:
            return 0, ""
        finally:
            connection.close()
