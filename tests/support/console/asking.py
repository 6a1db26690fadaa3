"""Asks an ASGI application in this process, as a browser would."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

HOST = "127.0.0.1:9650"


class Answer(msgspec.Struct, frozen=True):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


async def ask(
    application: Any,
    path: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] | None = None,
    form: Mapping[str, str] | None = None,
    scope: Mapping[str, Any] | None = None,
) -> Answer:
    """``path`` is as in an address, with its query. ``form`` makes it a POST."""
    parts = urlsplit(path)
    sent = {"host": HOST, **(headers or {})}
    body = b""
    if form is not None:
        method, body = "POST", urlencode(form).encode()
        sent = {"content-type": "application/x-www-form-urlencoded", **sent}
    asked = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": parts.path, "raw_path": quote(parts.path).encode(), "query_string": parts.query.encode(),
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 9650), **(scope or {}),
    }  # fmt: skip
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    answered: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        answered.append(message)

    await application(asked, receive, send)
    got = {name.decode().lower(): value.decode() for name, value in answered[0]["headers"]}
    return Answer(answered[0]["status"], got, b"".join(each.get("body", b"") for each in answered[1:]))
