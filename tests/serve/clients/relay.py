# SPDX-License-Identifier: Apache-2.0
"""A relay between a client and a server, which can fail in ways that a good server does not."""

import collections
import http.client
import http.server
import json
import sys
import threading
import urllib.parse

import served


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection of a client's; its requests are passed on one by one."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.relay(None)

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(dict(body))
        self.relay(json.dumps({**self.server.extra, **body}).encode())

    def relay(self, body):
        fault = self.server.faults.popleft() if body and self.server.faults else None
        if fault == "crash":
            self.send_error(502, "no server behind this")
            return
        upstream = http.client.HTTPConnection(self.server.host, timeout=served.PATIENCE)
        headers = {"Content-Type": "application/json"} if body else {}
        upstream.request(self.command, self.path, body, headers)
        answer = upstream.getresponse()
        self.send_response(answer.status)
        for name in ("Content-Type", "Content-Security-Policy"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.end_headers()  # the body ends with the connection
        self.pass_body(answer, fault)
        upstream.close()

    def pass_body(self, answer, fault):
        if fault is None:
            while piece := answer.read1(65536):
                self.wfile.write(piece)
            return
        self.pass_event(answer)  # the role
        self.pass_event(answer)  # some of the text
        if fault == "hold":
            self.wait_for_leaving()

    def pass_event(self, answer):
        """Passes one event on as if the answer did not end with it."""
        event = json.loads(answer.readline().removeprefix(b"data: "))
        event["choices"][0]["finish_reason"] = None
        self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
        answer.readline()

    def wait_for_leaving(self):
        self.connection.settimeout(served.PATIENCE)
        try:
            has_left = self.connection.recv(1) == b""
        except ConnectionError:
            has_left = True
        if has_left:
            self.server.has_left.set()


class Relay(http.server.ThreadingHTTPServer):
    """Listens from its making until stop(). Members that a request lacks come from `extra`. Each
    POST takes one of `faults` if there is one: "hold" stops in mid-answer until the client leaves,
    "break" ends there, "crash" is an error without an object. `requests` are those of clients."""

    daemon_threads = True

    def __init__(self, url, extra):
        super().__init__(("127.0.0.1", 0), Handler)
        self.host = urllib.parse.urlsplit(url).netloc
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.extra = extra
        self.faults = collections.deque()
        self.requests = []
        self.has_left = threading.Event()
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def handle_error(self, request, client_address):
        if not isinstance(sys.exc_info()[1], ConnectionError):  # clients may leave
            super().handle_error(request, client_address)

    def stop(self):
        self.shutdown()
        self.thread.join()
        self.server_close()
