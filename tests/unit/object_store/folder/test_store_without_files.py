"""A process that has no free file: whatever opens one fails for a reason that passes, and nothing is taken for missing.

In a process of its own, because the limit of open files is one of the process."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import resource, sys
from pathlib import Path
from siltstone.metadata.log_entry import NO_APPEND_ID, LogEntry, LogPosition, encode_entry
from siltstone.metadata.store.port import LogUnavailable
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.object_store.folder.store import FolderStore
from siltstone.object_store.port import StoreTransient
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import system_randomness

folder = Path(sys.argv[1])
store = FolderStore(folder / "bucket", SystemClock(), system_randomness())
log = SqliteLog(folder / "metadata.sqlite")
one = encode_entry(LogEntry("1" * 32, (), NO_APPEND_ID))
two = encode_entry(LogEntry("2" * 32, (), "1" * 32))
first = log.append(one, LogPosition())
store.put("a5/objects/1", [b"one"])
upload = store.start_multipart("a5/objects/3")
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
passing = 0
for call in (
    lambda: store.put("a5/objects/2", [b"two"]),
    lambda: store.put("b5/objects/2", [b"two"]),
    lambda: store.get_range("a5/objects/1", 0, 3),
    lambda: store.head("a5/objects/1"),
    lambda: list(store.list()),
    lambda: store.delete(["a5/objects/1"]),
    lambda: store.upload_part(upload, 1, 0, [b"three"]),
    lambda: list(store.list_multipart()),
    lambda: FolderStore(folder / "another", SystemClock(), system_randomness()),
):
    try:
        call()
    except StoreTransient as trouble:
        assert "Too many open files" in str(trouble), trouble
        passing += 1
assert log.append(two, first).version == 2, "it has its files open"
try:
    SqliteLog(folder / "metadata.sqlite")
except LogUnavailable:
    passing += 1
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
store.put("a5/objects/2", [b"two"])
store.put("a5/objects/1", [b"one"])
assert [each.key for each in store.list()] == ["a5/objects/1", "a5/objects/2"]
assert [entry for _, entry in log.read_after(0, 10)] == [one, two]
print(passing)
"""


def test_what_opens_a_file_fails_for_a_reason_that_passes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stdout + done.stderr
