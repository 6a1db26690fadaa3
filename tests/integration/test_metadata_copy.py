"""``siltstone metadata copy``: a store moves from SQLite to a real PostgreSQL, whatever happens meanwhile (P17)."""

from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from click.testing import CliRunner

from siltstone.cli.main import cli
from siltstone.metadata.applying import MetadataMoved
from siltstone.metadata.client import MetadataClient
from siltstone.metadata.commands import CreateStream, PutKey, RegisterNode
from siltstone.metadata.copying import Copied, CopyTaken, LogInUse, NothingToCopy, copy_log
from siltstone.metadata.leases.board import Beat
from siltstone.metadata.opening import open_board, open_copy
from siltstone.metadata.store.opening import open_log
from siltstone.metadata.store.port import AppendUncertain, LogUnavailable, NotMetadataLog
from siltstone.metadata.store.sqlite import SqliteLog
from siltstone.runtime.clock import SystemClock
from siltstone.runtime.randomness import seeded_randomness
from support.metadata.calls_under_way import in_thread

pytestmark = pytest.mark.postgres

CLOCK = SystemClock()


class Killed(BaseException):
    """Ends the copying as SIGKILL would: nothing catches it."""


class Dying:
    """Forwards calls, and dies at call number ``at``: before the call, or after it when ``is_done``."""

    def __init__(self, target: object, calls: Iterator[int], at: int, *, is_done: bool) -> None:
        self._target, self._calls, self._at, self._is_done = target, calls, at, is_done

    def __getattr__(self, name: str) -> Callable[..., object]:
        method = getattr(self._target, name)

        def call(*values: object, **named: object) -> object:
            is_mine = next(self._calls) == self._at
            if is_mine and not self._is_done:
                raise Killed
            answer = method(*values, **named)
            if is_mine:
                raise Killed
            return answer

        return call


def log_in(folder: Path) -> Path:
    path = folder / "metadata.sqlite"
    with closing(client_of(f"sqlite://{path}", snapshot_interval_records=4)) as client:
        client.execute(RegisterNode(0, "life", "/wal"))
        for number in range(6):
            client.execute(CreateStream(0, 1, {"number": str(number)}))
        client.execute(PutKey("key", b"value"))
    return path


@pytest.fixture
def old_path(tmp_path: Path) -> Path:
    return log_in(tmp_path)


@pytest.fixture
def new_url(postgres_server) -> str:
    return postgres_server.url(postgres_server.new_schema(), "connect_timeout=60")


def client_of(url: str, **options) -> MetadataClient:
    return MetadataClient(open_log(url), CLOCK, seeded_randomness(1), **options)


def copied(old_path: Path, new_url: str, seed: int = 2) -> Copied:
    with closing(SqliteLog(old_path)) as old, closing(open_copy(new_url, CLOCK)) as new:
        return copy_log(old, new, new_url, CLOCK, seeded_randomness(seed))


def test_p17_the_copy_has_the_same_image_and_goes_on_where_the_log_ended(old_path, new_url) -> None:
    with closing(client_of(f"sqlite://{old_path}")) as client:
        before = client.image
    assert copied(old_path, new_url) == Copied(before, was_done=False)
    with closing(client_of(new_url)) as moved:
        assert moved.image == before
        moved.execute(PutKey("later", b"2"))
        assert moved.image.version == before.version + 1
    with closing(client_of(new_url)) as moved:
        assert moved.image.keys["later"] == b"2"


def test_p17_the_old_log_names_the_new_one(old_path, new_url) -> None:
    open_client = client_of(f"sqlite://{old_path}")
    copied(old_path, new_url)
    attempts: list[Callable[[], object]] = [
        open_client.refresh,
        lambda: open_client.execute(PutKey("late", b"")),
        lambda: client_of(f"sqlite://{old_path}"),
    ]
    for attempt in attempts:
        with pytest.raises(MetadataMoved, match=r"was moved to postgresql://.*; name that log"):
            attempt()
    open_client.close()


@pytest.mark.parametrize("is_done", [False, True], ids=["before it", "after it"])
def test_p17_killed_at_every_step_and_repeated(postgres_server, tmp_path, is_done) -> None:
    for at in count():
        old_path = log_in(tmp_path / str(at))
        with closing(client_of(f"sqlite://{old_path}")) as client:
            before = client.image
        new_url = postgres_server.url(postgres_server.new_schema(), "connect_timeout=60")
        calls = count()
        with closing(SqliteLog(old_path)) as old, closing(open_copy(new_url, CLOCK)) as new:
            dying = [Dying(each, calls, at, is_done=is_done) for each in (old, new)]
            try:
                copy_log(dying[0], dying[1], new_url, CLOCK, seeded_randomness(at))  # type: ignore[arg-type]
            except Killed:
                pass
            else:
                break
        assert one_can_be_opened_at_most(old_path, new_url)
        assert copied(old_path, new_url, seed=at).image == before
        with closing(client_of(new_url)) as moved:
            assert moved.image == before
        with pytest.raises(MetadataMoved):
            client_of(f"sqlite://{old_path}")
    assert at >= 8, "every call to either log was the last one once"


def one_can_be_opened_at_most(old_path: Path, new_url: str) -> bool:
    opened = 0
    for url in (f"sqlite://{old_path}", new_url):
        try:
            log = open_log(url, create=False)
        except Exception:
            continue
        try:
            MetadataClient(log, CLOCK, seeded_randomness(1))
            opened += 1
        except MetadataMoved:
            pass
        finally:
            log.close()
    return opened <= 1


def test_repeating_a_complete_copy_changes_nothing(old_path, new_url) -> None:
    image = copied(old_path, new_url).image
    with closing(client_of(new_url)) as moved:
        moved.execute(PutKey("later", b"2"))
    assert copied(old_path, new_url) == Copied(image, was_done=True)
    with closing(client_of(new_url)) as moved:
        assert moved.image.keys["later"] == b"2"


def test_entries_that_arrive_meanwhile_are_copied_too(old_path, new_url) -> None:
    with closing(SqliteLog(old_path)) as old, closing(open_copy(new_url, CLOCK)) as new:
        rivals = iter(["first", "second"])

        def step(text: str) -> None:
            if text.startswith("ending") and (key := next(rivals, None)) is not None:
                with closing(client_of(f"sqlite://{old_path}")) as rival:
                    rival.execute(PutKey(key, b"rival"))

        image = copy_log(old, new, new_url, CLOCK, seeded_randomness(2), on_step=step).image
    assert {"first", "second"} <= image.keys.keys()
    with closing(client_of(new_url)) as moved:
        assert moved.image == image


def test_a_log_that_never_rests_is_in_use(old_path, new_url) -> None:
    numbers = count()

    def step(text: str) -> None:
        if text.startswith("ending"):
            with closing(client_of(f"sqlite://{old_path}")) as rival:
                rival.execute(PutKey(f"rival {next(numbers)}", b""))

    with (
        closing(SqliteLog(old_path)) as old,
        closing(open_copy(new_url, CLOCK)) as new,
        pytest.raises(LogInUse, match="stop every process"),
    ):
        copy_log(old, new, new_url, CLOCK, seeded_randomness(2), on_step=step)
    client_of(f"sqlite://{old_path}").close()
    with pytest.raises(NotMetadataLog, match="repeat siltstone metadata copy"):
        open_log(new_url)


@pytest.mark.parametrize("is_written", [False, True])
def test_an_append_of_unknown_outcome_is_looked_for(old_path, new_url, is_written) -> None:
    class Uncertain(SqliteLog):
        attempts = 0

        def append(self, entry, expected):
            self.attempts += 1
            if self.attempts > 1:
                return super().append(entry, expected)
            if is_written:
                super().append(entry, expected)
            raise AppendUncertain("the answer was lost")

    with closing(Uncertain(old_path)) as old, closing(open_copy(new_url, CLOCK)) as new:
        image = copy_log(old, new, new_url, CLOCK, seeded_randomness(2)).image
    with closing(client_of(new_url)) as moved:
        assert moved.image == image


def test_what_one_process_has_written_another_does_not_complete(old_path, new_url) -> None:
    """The slow one has read an older image, and writes it after the quick one has ended the old log."""
    with closing(SqliteLog(old_path)) as old, closing(open_copy(new_url, CLOCK)) as slow:
        image = client_of(f"sqlite://{old_path}").image
        ((_, entry),) = old.read_after(image.version - 1, 1)
        with closing(client_of(f"sqlite://{old_path}")) as rival:
            rival.execute(PutKey("rival", b""))
        with closing(open_copy(new_url, CLOCK)) as quick:

            def step(text: str) -> None:
                if text.startswith("ending"):
                    slow.write(image.position, entry, iter([b"older"]))

            with pytest.raises(LogUnavailable, match="another process writes the copy"):
                copy_log(old, quick, new_url, CLOCK, seeded_randomness(2), on_step=step)
    assert copied(old_path, new_url).image.keys["rival"] == b""


def test_what_cannot_be_copied_is_refused(tmp_path, old_path, new_url, postgres_server) -> None:
    SqliteLog(tmp_path / "empty.sqlite").close()
    with pytest.raises(NothingToCopy):
        copied(tmp_path / "empty.sqlite", new_url)
    other = postgres_server.url(postgres_server.new_schema(), "connect_timeout=60")
    client_of(other).close()
    with pytest.raises(CopyTaken, match="name an empty schema"):
        copied(old_path, other)
    copied(old_path, new_url)
    with pytest.raises(CopyTaken, match="was moved to"):
        copied(old_path, postgres_server.url(postgres_server.new_schema(), "connect_timeout=60"))


def run(*words: str):
    return CliRunner().invoke(cli, ["metadata", "copy", *words], prog_name="siltstone")


def test_the_command_says_what_it_does_and_how_to_go_on(tmp_path, old_path, new_url) -> None:
    done = run("--store", str(tmp_path), "--to", new_url)
    assert done.exit_code == 0, done.output
    assert (
        "The metadata was moved to postgresql://" in done.stdout
        and 'metadata = "postgresql://' in done.stdout
    )
    again = run("--store", str(tmp_path), "--to", new_url)
    assert again.exit_code == 0 and " before (" in again.stdout
    listed = CliRunner().invoke(cli, ["streams", "--store", str(tmp_path)], prog_name="siltstone")
    assert listed.exit_code == 2, listed.output


def test_it_is_refused_while_a_node_lives(tmp_path, old_path, new_url) -> None:
    with closing(open_board(f"sqlite://{old_path}", CLOCK)) as board:
        numbers = count()

        def beat_until(ended) -> None:
            while not ended():
                board.beat(Beat(3, 1, next(numbers), "life"))
                CLOCK.block_ms(100)

        call = in_thread(lambda: run("--store", str(tmp_path), "--to", new_url))
        beat_until(call.done)
        refused = call.result()
    assert refused.exit_code == 2 and "node 3 of the store is running" in refused.stderr


@pytest.mark.parametrize(
    ("url", "status", "said"),
    [
        ("sqlite:///tmp/other.sqlite", 2, "is no place for a copy"),
        ("postgresql://h/d?schema=a-b", 2, "names no metadata log"),
        ("postgresql://nobody@127.0.0.1:1/none", 1, "no connection to the metadata database"),
    ],
)
def test_a_wrong_place_is_said(tmp_path, old_path, url, status, said) -> None:
    refused = run("--store", str(tmp_path), "--to", url)
    assert (refused.exit_code, said in refused.stderr) == (status, True), refused.stderr
    client_of(f"sqlite://{old_path}").close()
