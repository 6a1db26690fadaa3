"""A process that has no free file for a new connection, on both event loops.

In a process of its own, because the limit of open files is one of the process."""

import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, logging, os, resource, socket, struct, sys, time
from siltstone.runtime.clock import SystemClock
from siltstone.server.network.addresses import parse_addresses
from siltstone.server.network.listeners import Listeners
from siltstone.server.network.settings import NetworkSettings
from siltstone.server import python_process

logging.basicConfig(format="%(message)s", stream=sys.stdout)
run = {"asyncio": asyncio.run, "uvloop": python_process.run}[sys.argv[1]]

HELLO = struct.pack(">i", 5) + b"hello"

class Echo:
    wants_pause = False
    def handle(self, _, frame):
        return [struct.pack(">i", len(frame)), frame]
    def end_waits(self):
        pass
    def connection_closed(self, _):
        pass
    def certificate_refused(self, *_):
        pass

def connected(client, port):
    client.setblocking(False)
    try:
        client.connect(("127.0.0.1", port))
    except BlockingIOError:
        pass
    return client

async def main():
    listeners = Listeners(parse_addresses(["127.0.0.1:0"]), Echo(), NetworkSettings(), SystemClock())
    await listeners.start()
    port = listeners.listeners[0].advertised_port
    loop = asyncio.get_running_loop()
    clients = [socket.socket() for _ in range(6)]
    newest = max(map(int, os.listdir("/proc/self/fd")))
    while os.dup(0) < newest:
        pass
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    before = time.process_time()
    for client in clients[:5]:
        connected(client, port)
    await asyncio.sleep(2.2)
    assert time.process_time() - before < 1.0, "the event loop spins"
    assert listeners.statistics().accepted == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    last = connected(clients[5], port)
    await asyncio.sleep(0)
    await loop.sock_sendall(last, HELLO)
    assert await asyncio.wait_for(loop.sock_recv(last, 100), 60) == HELLO
    await listeners.close()

run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_rule_12_accepting_goes_on_when_there_are_files_again(loop: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, loop], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    lines = done.stdout.splitlines()
    assert len(lines) == 1 and "too-few-files" in lines[0], lines[:10]
    assert "raise the limit" in lines[0]
