import pytest

from siltstone.metadata.store.opening import LogUrlMalformed, open_log
from siltstone.metadata.store.port import LogNotFound, LogUnavailable


def test_the_path_is_what_follows(tmp_path) -> None:
    log = open_log(f"sqlite://{tmp_path}/with%20space/metadata.sqlite")
    log.append(b"a", 0)
    log.close()
    assert (tmp_path / "with space" / "metadata.sqlite").exists()


def test_without_creating(tmp_path) -> None:
    with pytest.raises(LogNotFound):
        open_log(f"sqlite://{tmp_path}/metadata.sqlite", create=False)


def test_what_cannot_be_opened_says_what_to_look_at(tmp_path) -> None:
    (tmp_path / "metadata.sqlite").mkdir()
    with pytest.raises(
        LogUnavailable, match=r"cannot be opened: .*; check the permissions of the file and of its folder"
    ):
        open_log(f"sqlite://{tmp_path}/metadata.sqlite", create=False)


@pytest.mark.parametrize(
    "url", ["", "/a/b", "sqlite:", "sqlite:///", "sqlite://relative/m", "sqlite:a", "postgresql://h/db"]
)
def test_other_urls(url) -> None:
    with pytest.raises(LogUrlMalformed, match="sqlite:///absolute"):
        open_log(url)
