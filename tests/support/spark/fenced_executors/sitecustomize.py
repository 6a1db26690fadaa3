"""Imported by every Python process of an executor that has this folder in its PYTHONPATH: the process can neither
connect to a broker nor open a file of a store but those in its bucket. Each process leaves a file that says so.

FENCED_PORT is the broker's port, FENCED_STORE the folder of the store, FENCED_SAYS the folder for the files.
"""

import os
import sys
from pathlib import Path
from typing import Any

PORT = int(os.environ.get("FENCED_PORT", "0"))
STORE = os.environ.get("FENCED_STORE", "")
SAYS = os.environ.get("FENCED_SAYS", "")


def fence(event: str, given: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(given[1], tuple) and given[1][1] == PORT:
        refuse(f"broker-{os.getpid()}", f"port {PORT} is the broker's")
    if event in ("open", "sqlite3.connect") and isinstance(given[0], str | bytes | os.PathLike):
        path = os.path.abspath(os.fsdecode(given[0]))
        if path.startswith(f"{STORE}/") and not f"{path}/".startswith(f"{STORE}/bucket/"):
            refuse(f"metadata-{os.getpid()}", f"{path} is not in the bucket")


def refuse(name: str, text: str) -> None:
    os.makedirs(f"{SAYS}/{name}", exist_ok=True)
    raise ConnectionRefusedError(text)


if (
    SAYS and "SPARK_EXECUTOR_DIRS" in os.environ
):  # the driver's own Python processes have the other variables, too
    Path(SAYS, f"fenced-{os.getpid()}").touch()
    sys.addaudithook(fence)
