"""``siltstone users add`` at a terminal: the password is asked for twice, and not shown."""

import os
import pty
import subprocess
from pathlib import Path

from siltstone.metadata.image import MetadataImage
from siltstone.offline.opening.store import open_store
from siltstone.server.settings.node import NodeSettings
from support.broker.broker_process import SILTSTONE
from support.engine.small_store import small_store

PASSWORD = "pl4nted-password"


def typed(settings: NodeSettings, *lines: str) -> tuple[int, str]:
    """Runs the command at a terminal, and types a line at each question. Returns exit status and what was shown."""
    terminal, other_end = pty.openpty()
    command = [str(SILTSTONE), "users", "add", "ada", "--store", str(settings.folder)]
    with subprocess.Popen(
        command, stdin=other_end, stdout=other_end, stderr=other_end, close_fds=True
    ) as process:
        os.close(other_end)
        shown, asked = b"", 0
        while True:
            try:
                shown += os.read(terminal, 4096)
            except OSError:  # the command has ended
                break
            if shown.count(b": ") > asked and asked < len(lines):
                os.write(terminal, f"{lines[asked]}\n".encode())
                asked += 1
        os.close(terminal)
    return process.returncode, shown.decode()


def image_of(settings: NodeSettings) -> MetadataImage:
    with open_store(settings) as store:
        return store.metadata.image


def test_sp01_a_password_is_asked_for_twice_and_not_shown(tmp_path: Path) -> None:
    settings = small_store(tmp_path / "store")
    status, shown = typed(settings, PASSWORD, PASSWORD)
    assert status == 0 and "Password of ada" in shown and "User ada was added." in shown
    assert PASSWORD not in shown
    assert set(image_of(settings).users) == {"ada"}
