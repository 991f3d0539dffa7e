"""A way to the server whose connections break."""

import contextlib
import socket
import threading


class Unreliable:
    """Passes bytes between a client and the server.

    Each connection is cut once `bytes_until_cut` have come from the server; after
    `cuts` of them connections last.
    """

    def __init__(self, server_address, bytes_until_cut, cuts):
        host, port = server_address.rsplit(":", 1)
        self.server = (host, int(port))
        self.bytes_until_cut = bytes_until_cut
        self.cuts_left = cuts
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def _accept(self):
        with contextlib.suppress(OSError):  # until the listener is closed
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.server)
                for source, target, limit in (
                    (client, server, None),
                    (server, client, self.bytes_until_cut),
                ):
                    arguments = (source, target, limit)
                    threading.Thread(
                        target=self._pass, args=arguments, daemon=True
                    ).start()

    def _pass(self, source, target, limit):
        passed = 0
        with contextlib.suppress(OSError):  # the other direction was cut
            while data := source.recv(1 << 16):
                target.sendall(data)
                passed += len(data)
                if limit and passed > limit and self.cuts_left > 0:
                    self.cuts_left -= 1
                    break
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
