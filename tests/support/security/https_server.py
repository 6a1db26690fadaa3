"""A server with TLS on a port of this machine, in a thread, for questions over https."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

from support.tls.authority import Pair

Answer = tuple[int, dict[str, str], bytes]
Asked = Callable[[str, dict[str, str], bytes], Answer]


class _Server(HTTPServer):
    def handle_error(self, *_: object) -> None:
        """A client that does not trust this server has gone."""


@contextmanager
def https_server(pair: Pair, asked: Asked) -> Iterator[str]:
    """Yields the URL. ``asked`` gets path, headers in lower case and body, and returns status, headers and body."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            named = {name.lower(): value for name, value in self.headers.items()}
            status, headers, answer = asked(self.path, named, body)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            try:
                self.wfile.write(answer)
            except OSError:  # the client has enough
                self.close_connection = True

        do_POST = do_GET  # noqa: N815  the name is that of the library

        def log_message(self, *_: object) -> None:
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair.certificate, pair.key)
    with _Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
