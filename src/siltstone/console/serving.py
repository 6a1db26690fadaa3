"""Serves the console at a socket, by uvicorn, until the caller leaves.

uvicorn's own ``serve`` would take over the signals of the process and raise them once more at its end, so its three
steps are called one by one.
"""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import uvicorn
from starlette.applications import Starlette

from siltstone.runtime.tasks import TaskGroup

CONNECTIONS_MAX = 100
HEAD_BYTES_MAX = 16 * 1024
CLOSING_SECONDS_MAX = 5


@asynccontextmanager
async def served(application: Starlette, listening: socket.socket) -> AsyncIterator[None]:
    """Answers requests inside of the ``with``. Leaving it ends the requests under way after CLOSING_SECONDS_MAX."""
    config = uvicorn.Config(
        application, http="h11", ws="none", lifespan="off", log_config=None, access_log=False, server_header=False,
        log_level="error",  # a warning for each malformed request would let a stranger fill the log
        limit_concurrency=CONNECTIONS_MAX, h11_max_incomplete_event_size=HEAD_BYTES_MAX, proxy_headers=False,
        timeout_graceful_shutdown=CLOSING_SECONDS_MAX,
    )  # fmt: skip
    config.load()
    server = uvicorn.Server(config)
    server.lifespan = config.lifespan_class(config)
    tasks = TaskGroup("console", lambda _: None)
    await server.startup(sockets=[listening])
    ticking = tasks.start("http", server.main_loop())
    try:
        yield
    finally:
        server.should_exit = True
        await asyncio.wait({ticking})
        await server.shutdown(sockets=[listening])
