import os
import subprocess
import sys

import msgspec
import pytest

INTERRUPTED_AFTER_A_WRITE = """
import sys
from siltstone.cli.standard_streams import prepare_streams

def interrupted(frame, event, _):
    is_ours = frame.f_code.co_filename.endswith("standard_streams.py")
    if is_ours and event == "return" and frame.f_code.co_name in ("write", "flush"):
        sys.setprofile(None)
        raise KeyboardInterrupt

prepare_streams()
sys.setprofile(interrupted)
try:
    sys.stdout.buffer.write(b"a record\\n")
    sys.stdout.buffer.flush()
except KeyboardInterrupt:
    pass
"""
INTERRUPTED_IN_A_FINALIZER = """
import signal, time
from siltstone.cli.main import keep_quiet

class Freed:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
        time.sleep(0)

keep_quiet()
freed = Freed()
try:
    del freed
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted")
"""


def written(encoding: str, stream: str) -> bytes:
    program = (
        "import sys\n"
        "from siltstone.cli.standard_streams import prepare_streams\n"
        "prepare_streams()\n"
        f"print('\u2264 3 \u2026 \u2192 \u00e4 \u4e2d', file=sys.{stream})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        check=True,
        timeout=120,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    return done.stdout if stream == "stdout" else done.stderr


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_character_that_the_encoding_lacks_is_written_plainly(stream: str) -> None:
    """Any command that shows a compacted topic was "a bug" in a terminal in Latin-1."""
    assert written("ascii", stream) == b"<= 3 ... -> \\xe4 \\u4e2d\n"
    assert written("latin-1", stream) == b"<= 3 ... -> \xe4 \\u4e2d\n"
    assert written("utf-8", stream).decode() == "≤ 3 … → ä 中\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_says_the_same_in_every_encoding(encoding: str) -> None:
    """What the encoding lacks is escaped as JSON does it: a plain sign in its place would be other data."""
    value = {"≤": "ä 中 \N{GRINNING FACE} …"}
    program = (
        "from siltstone.cli.output import print_json\n"
        "from siltstone.cli.standard_streams import prepare_streams\n"
        "prepare_streams()\n"
        f"print_json({value!a})\n"
    )
    env = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=120, env=env
    )
    assert msgspec.json.decode(done.stdout.decode(encoding)) == value


def test_help_is_ascii_in_a_terminal_that_has_no_more() -> None:
    """click takes a stream in ASCII for a mistake, and would write UTF-8."""
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    asked = [sys.executable, "-m", "siltstone", "topics", "--help"]
    done = subprocess.run(asked, capture_output=True, check=True, timeout=120, env=env)
    assert done.stdout.isascii() and b"<=" in done.stdout


def said_by(program: str) -> bytes:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, timeout=120
    ).stdout


def test_ctrl_c_at_the_end_of_a_write_writes_nothing_twice() -> None:
    """``tail`` once showed a record a second time."""
    assert said_by(INTERRUPTED_AFTER_A_WRITE) == b"a record\n"


def test_an_error_of_stdout_has_its_name() -> None:
    program = (
        "from siltstone.cli.standard_streams import prepare_streams\n"
        "import sys\n"
        "prepare_streams()\n"
        "try:\n"
        "    print('a' * 100_000, flush=True)\n"
        "except OSError as failure:\n"
        "    sys.exit(str(failure))\n"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, check=False
        )
    assert b"No space left on device: 'standard output'" in done.stderr


@pytest.mark.timeout(60)
def test_ctrl_c_in_a_finalizer_is_not_lost() -> None:
    assert said_by(INTERRUPTED_IN_A_FINALIZER) == b"interrupted\n"
