"""Defines what is done to a scene: faults, and what heals them. Each is a step, which is a function of the scene, or
makes one."""

import resource
import shutil
import signal
import socket
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from siltstone.server.network.sockets import FILES_RESERVED
from support.faults.s3_proxy import Answers
from support.faults.scene import SECONDS_MAX, Scene, Unwanted

Step = Callable[[Scene], None]
KEPT = "kept"
"""The name of a copy of a part that is damaged or replaced."""


def nothing(_: Scene) -> None:
    """This step is for faults that need no healing, or heal by themselves."""


# -- disks -----------------------------------------------------------------------------------------------


def fill(disk: str) -> Step:
    return lambda scene: scene.disks[disk].fill()


def empty(disk: str) -> Step:
    return lambda scene: scene.disks[disk].empty()


def make_read_only(disk: str) -> Step:
    return lambda scene: scene.disks[disk].make_read_only()


def make_writable(disk: str) -> Step:
    return lambda scene: scene.disks[disk].make_writable()


def make_hang(scene: Scene) -> None:
    scene.hang_file.touch()


def let_answer(scene: Scene) -> None:
    scene.hang_file.unlink()


# -- S3 --------------------------------------------------------------------------------------------------


def answer(answers: Answers) -> Step:
    def step(scene: Scene) -> None:
        assert scene.proxy is not None
        scene.proxy.answer(answers)

    return step


def kill_s3(scene: Scene) -> None:
    assert scene.s3 is not None
    scene.s3.kill()


def start_s3(scene: Scene) -> None:
    assert scene.s3 is not None
    scene.s3.start()


# -- the metadata ----------------------------------------------------------------------------------------


def lock_metadata(scene: Scene) -> None:
    scene.locked = sqlite3.connect(scene.metadata_file, isolation_level=None, timeout=SECONDS_MAX)
    scene.locked.execute("BEGIN EXCLUSIVE")


def unlock_metadata(scene: Scene) -> None:
    assert scene.locked is not None
    scene.locked.close()
    scene.locked = None


NEWEST = "newest-metadata"
OLDER = "older-metadata"
LOG = "log-of-the-node"


def live_twice(scene: Scene) -> None:
    """The broker is stopped twice, and a copy of the metadata is kept from the first time."""
    scene.begin()
    scene.stop()
    scene.copy(scene.metadata_file.parent, OLDER)
    scene.start()
    scene.wait_for_acks(300, SECONDS_MAX, "in the second life")
    scene.wait_for_objects(3, "in the second life")
    scene.stop()


def restore_older_metadata(scene: Scene) -> None:
    scene.copy(scene.metadata_file.parent, NEWEST)
    scene.put_back(OLDER, scene.metadata_file.parent)


def restore_older_metadata_without_log(scene: Scene) -> None:
    restore_older_metadata(scene)
    scene.log_folder.rename(scene.folder / LOG)


def restore_newest_metadata(scene: Scene) -> None:
    """Restores the log, too, if it was moved away."""
    scene.put_back(NEWEST, scene.metadata_file.parent)
    if (scene.folder / LOG).exists():
        scene.put_back(LOG, scene.log_folder)


# -- the write-ahead log ---------------------------------------------------------------------------------


def die_with_a_full_log(scene: Scene) -> None:
    """The broker is killed with half a MiB in the log that is in no object."""
    assert scene.place.holds_uploads
    scene.begin()
    scene.wait_for_acks(600, SECONDS_MAX, "before the end")
    scene.broker.kill()


def in_log(damage: Callable[[Path], None], *, at: int) -> Step:
    """``at`` says which of the log's files is damaged, oldest first."""

    def step(scene: Scene) -> None:
        scene.copy(scene.log_folder, KEPT)
        files = sorted(path for path in scene.log_folder.iterdir() if path.stat().st_size > 32_000)
        if len(files) < 5:
            raise Unwanted(f"the log has too few files to damage one in the middle: {files}")
        damage(files[at])

    return step


def put_log_back(scene: Scene) -> None:
    scene.put_back(KEPT, scene.log_folder)


# -- objects ---------------------------------------------------------------------------------------------


def in_object(damage: Callable[[Path], None]) -> Step:
    """Damages the object that ``Scene.victim`` names."""

    def step(scene: Scene) -> None:
        path = scene.victim_path()
        shutil.copy(path, scene.folder / KEPT)
        damage(path)

    return step


def flip_in_object(scene: Scene) -> None:
    """Flips one bit in a block of the partition that will be read, since an object has blocks of all partitions."""
    assert scene.victim is not None
    path = scene.victim_path()
    shutil.copy(path, scene.folder / KEPT)
    data = bytearray(path.read_bytes())
    data[scene.victim.position] ^= 1
    path.write_bytes(data)


def put_object_back(scene: Scene) -> None:
    shutil.copy(scene.folder / KEPT, scene.victim_path())


def flip(path: Path) -> None:
    """Flips one bit in the second quarter, where neither header nor index is."""
    data = bytearray(path.read_bytes())
    data[len(data) * 3 // 8] ^= 1
    path.write_bytes(data)


def halve(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def delete(path: Path) -> None:
    path.unlink()


# -- the process -----------------------------------------------------------------------------------------


def shift_clock(milliseconds: int) -> Step:
    return lambda scene: scene.shift_clock(milliseconds)


def stand_still(scene: Scene) -> None:
    """Stops the process for 10 s, in which no client gets an answer."""
    scene.broker.signal(signal.SIGSTOP)
    time.sleep(10)
    scene.broker.signal(signal.SIGCONT)


CONNECTIONS = 150

CONNECTIONS_WITH_FILES = 50
"""The new connections for which there are files: enough for every client that looks at the broker later."""


def connect_beyond_the_file_limit(scene: Scene) -> None:
    """Opens more connections than the process may have files. The limit stays when they are closed, so it is counted
    from the files that the broker has open anyway: a fixed number would be too low for any client one day."""
    newest = max(int(each.name) for each in Path(f"/proc/{scene.broker.process_id}/fd").iterdir())
    limit = newest + 1 + CONNECTIONS_WITH_FILES + FILES_RESERVED
    resource.prlimit(scene.broker.process_id, resource.RLIMIT_NOFILE, (limit, 4096))
    scene.connections = [
        socket.create_connection(scene.broker.address, timeout=SECONDS_MAX) for _ in range(CONNECTIONS)
    ]


def close_connections(scene: Scene) -> None:
    for each in scene.connections:
        each.close()
