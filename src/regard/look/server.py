"""The explorer on this machine: a page at /, and questions at /ask/NAME, asked and answered in JSON.

Only this machine is listened to, and only pages of this server are answered: a question must name this host
and come as JSON, which a page from elsewhere cannot send. Everything in a question is data; nothing of it
becomes markup, a path or code.
"""

import json
import sys
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NoReturn

from regard.look.explorer.explorer import Explorer, Refused
from regard.look.page import page

HOST = "127.0.0.1"
LARGEST = 256 * 1024
"""Bytes of a question."""
WAITING = 32
"""Questions that may wait for their turn; who asks beyond that is told to come again."""


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """Connections that the system holds until they are taken: of more, some would be cut off."""

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        """Port 0: any that is free."""
        super().__init__((HOST, port), Handler)
        self.explorer, self.page = explorer, page(None).encode()
        self.room = threading.BoundedSemaphore(WAITING)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that was closed before its answer came is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"


class Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "regard", ""
    timeout = 60

    def do_GET(self) -> None:
        if not self._is_own_host():
            return
        if self.path.split("?")[0] == "/":
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        else:
            self._refuse(HTTPStatus.NOT_FOUND, "there is nothing here but the page at /")

    def do_POST(self) -> None:
        if not self._is_own_host():
            return
        length = self.headers.get("Content-Length", "")
        if "Transfer-Encoding" in self.headers or not (length.isascii() and length.isdigit()):
            self._refuse(HTTPStatus.LENGTH_REQUIRED, "say how long the question is")
            return
        if len(length) > 12 or int(length) > LARGEST:
            self._refuse(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                f"a question of {length:.12} bytes: at most {LARGEST:,} are taken",
            )
            return
        body = self.rfile.read(int(length))
        if self.headers.get_content_type() != "application/json":
            self._refuse(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "questions come as application/json")
            return
        folder, _, question = self.path.strip("/").partition("/")
        if folder != "ask":
            self._refuse(HTTPStatus.NOT_FOUND, "questions go to /ask/NAME")
            return
        try:
            given = json.loads(body, parse_constant=_no_number)
        except (ValueError, RecursionError):
            given = None
        if not isinstance(given, dict):
            self._refuse(HTTPStatus.BAD_REQUEST, "a question's arguments are a JSON object")
            return
        if not self.server.room.acquire(blocking=False):
            self._refuse(
                HTTPStatus.SERVICE_UNAVAILABLE, f"{WAITING} questions are waiting already: ask again later"
            )
            return
        try:
            # NaN is no JSON; a page would choke on it, so it is an error here
            answer = json.dumps(self.server.explorer.ask(question, given), allow_nan=False)
        except Refused as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        except Exception as error:
            self._refuse(HTTPStatus.INTERNAL_SERVER_ERROR, f"{type(error).__name__}: {error}")
            raise
        finally:
            self.server.room.release()
        self._send(HTTPStatus.OK, "application/json", answer.encode())

    def _is_own_host(self) -> bool:
        """A name that some other site has pointed at this machine is none of ours."""
        port = self.server.server_port
        if self.headers.get("Host") in (f"{HOST}:{port}", f"localhost:{port}"):
            return True
        self._refuse(HTTPStatus.FORBIDDEN, f"open {self.server.address}")
        return False

    def _refuse(self, status: HTTPStatus, why: str) -> None:
        self.close_connection = True  # what was not read of the question must not be taken for the next one
        self._send(status, "application/json", json.dumps({"refused": why}).encode())

    def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Frame-Options", "DENY")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: the page says what went wrong."""
