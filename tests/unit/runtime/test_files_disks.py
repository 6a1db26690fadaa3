import shutil
from pathlib import Path

import pytest

from siltstone.runtime.files import SystemDisks


def test_as_df_has_it(tmp_path: Path) -> None:
    used, capacity = SystemDisks().space_of(tmp_path)
    free = shutil.disk_usage(tmp_path).free
    assert 0 < used <= capacity
    assert abs(capacity - used - free) < 0.05 * capacity


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        SystemDisks().space_of(tmp_path / "gone")
