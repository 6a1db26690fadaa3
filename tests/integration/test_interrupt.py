"""Ctrl-C in the middle of a command, in a real process."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.processes.tried import RecordTried

PROGRAM = "from siltstone.cli.main import main; main()"


BY_NIGHT = [
    pytest.param(moment, marks=pytest.mark.nightly)
    for moment in ("Produce January", "Before compaction", "Consume all")
]


@pytest.mark.parametrize("moment", ["Compact in", *BY_NIGHT])
def test_ctrl_c_leaves_one_line_and_no_folder(tmp_path: Path, moment: str, record_tried: RecordTried) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "demo", "--runner", "in-process"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )
    assert process.stdout is not None
    for line in process.stdout:
        if moment in line:
            break
    process.send_signal(signal.SIGINT)
    said, complaint = process.communicate(timeout=60)
    assert "What each step changed" not in said
    assert process.returncode == 130
    assert complaint.split() == ["siltstone:", "interrupted"]
    assert list(tmp_path.iterdir()) == []
    record_tried("interruptions", 1)
