"""A process that writes into a folder is killed; every write that it was told has succeeded is there, and no object is
there in part."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from siltstone.object_store.folder.store import FolderStore
from siltstone.object_store.port import ObjectStore
from siltstone.runtime.clock import ManualClock, SystemClock
from siltstone.runtime.randomness import system_randomness
from support.engine import store_processes
from support.engine.store_processes import content_of

pytestmark = pytest.mark.crash

TESTS = Path(store_processes.__file__).parents[2]
COMMAND = [sys.executable, "-m", "support.engine.store_processes"]


def acknowledged_until_killed(url: str, acknowledgements: int) -> list[str]:
    """Kills the writer while it continues after the given number of acknowledged puts."""
    command = [*COMMAND, "write_forever", url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=TESTS) as writer:
        assert writer.stdout
        heard = [writer.stdout.readline().strip() for _ in range(acknowledgements)]
        writer.kill()
        heard += [line.strip() for line in writer.stdout if line.endswith("\n")]
    return heard


def check_whole(store: ObjectStore) -> set[str]:
    """Every object holds what its number says. The keys."""
    keys = set()
    for summary in store.list():
        content = store.get_range(summary.key, 0, summary.size_bytes)
        assert content == content_of(int(summary.key[-20:])), summary
        keys.add(summary.key)
    return keys


@pytest.mark.parametrize("seed", range(4))
def test_what_was_acknowledged_stands_and_nothing_in_part(tmp_path: Path, seed: int) -> None:
    heard = acknowledged_until_killed(tmp_path.as_uri(), Random(seed).randrange(1, 120))

    store = FolderStore(tmp_path, SystemClock(), system_randomness())
    keys = check_whole(store)

    assert keys.issuperset(heard)
    assert len(keys) - len(set(heard)) <= 1  # at most the put under way when it was killed

    later = FolderStore(tmp_path, ManualClock(SystemClock().now_ms() + 60_000), system_randomness())
    later.remove_stale(older_than_ms=30_000)
    for upload in later.list_multipart():
        later.abort_multipart(upload)
    left = [path for name in (".temporary", ".uploads") for path in (tmp_path / name).iterdir()]
    assert left == []
    assert check_whole(store) == keys


def test_stopped_before_any_step_an_object_is_whole_or_absent(tmp_path: Path) -> None:
    ended = subprocess.run(
        [*COMMAND, "stop_at_every_step", str(tmp_path)], check=True, capture_output=True, text=True, cwd=TESTS
    )
    steps = int(ended.stdout)
    keys = [
        check_whole(FolderStore(tmp_path / f"{step}", SystemClock(), system_randomness()))
        for step in range(1, steps + 1)
    ]

    assert steps > 25
    assert all(earlier <= later for earlier, later in pairwise(keys))  # what was there a step before stays
    assert [len(each) for each in (keys[0], keys[-1])] == [0, 4]
