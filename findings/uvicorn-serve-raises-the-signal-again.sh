#!/usr/bin/env bash
# What    uvicorn 0.54.0 (PyPI): Server.serve() sends the process the signal that ended it once more.
# Guess   A program that runs serve() beside its own work and has a handler for SIGTERM sees one SIGTERM for one kill. While
#         serve() runs, uvicorn's handlers have replaced it; afterwards it is back and was not called.
# Seen    One SIGTERM: serve() ends, puts the program's handler back, and raises the same signal in the process. The handler
#         runs at a moment when the program thinks that the signal was taken. A second kill during the end is raised, too, so
#         the handler runs twice.
# So      A program with an ordered end of its own calls startup(), main_loop() and shutdown(), and sets should_exit.
# Source  uvicorn/server.py of that version, capture_signals().
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "uvicorn==0.54.0"
"$folder/venv/bin/python" - <<'PY'
import asyncio
import os
import signal

import uvicorn


async def nothing(scope, receive, send):
    return None


calls = []
signal.signal(signal.SIGTERM, lambda number, frame: calls.append(signal.Signals(number).name))


async def serve_until_told(kills: int) -> None:
    server = uvicorn.Server(uvicorn.Config(nothing, port=0, lifespan="off", log_level="error"))
    serving = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    for _ in range(kills):
        os.kill(os.getpid(), signal.SIGTERM)
    await serving


found = []
for kills in (1, 2):
    calls.clear()
    asyncio.run(serve_until_told(kills))
    print(f"{kills} kill(s): the program's own handler was called {len(calls)} time(s), after serve()")
    found.append(len(calls))
assert found == [1, 2], "uvicorn keeps the signal now: this finding is out of date"
PY
echo "seen again"
