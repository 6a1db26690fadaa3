"""Opens what belongs to a metadata log besides the log itself, by the same URLs (``store.opening``): the lease board,
and the copy that ``siltstone metadata copy`` writes."""

from contextlib import closing

from siltstone.metadata.copying import LogCopy
from siltstone.metadata.leases.board import Beat, BoardUnavailable, LeaseBoard, NodeLoad, time_of
from siltstone.metadata.leases.sqlite_board import SqliteBoard, board_path
from siltstone.metadata.store.opening import postgres_adapter, postgres_place_of, sqlite_path_of
from siltstone.metadata.store.port import LogUrlMalformed
from siltstone.metadata.store.postgres.place import is_postgres_url
from siltstone.runtime.clock import Clock


def open_board(url: str, clock: Clock) -> LeaseBoard:
    """Returns the lease board of the log; it opens its file or its connection when it is used. Raises LogUrlMalformed,
    PostgresDriverMissing."""
    if is_postgres_url(url):
        place = postgres_place_of(url)
        board: LeaseBoard = postgres_adapter("leases.postgres_board").PostgresBoard(place, clock)
        return board
    return SqliteBoard(board_path(sqlite_path_of(url)))


def newest_beats(url: str, clock: Clock) -> tuple[Beat, ...]:
    """Returns the newest beat of each node, for people. Nothing is created: a file that the user of this process
    created would be one that the nodes cannot write to. Raises BoardUnavailable, LogUrlMalformed,
    PostgresDriverMissing."""
    if not is_postgres_url(url) and not board_path(sqlite_path_of(url)).exists():
        return ()
    with closing(open_board(url, clock)) as board:
        return board.beats()


def newest_beat_ms(url: str, clock: Clock) -> int | None:
    """Returns the time of the newest beat of any node; None when the board knows none, or cannot be read."""
    try:
        beats = newest_beats(url, clock)
    except BoardUnavailable:
        return None
    return max((time_ms for beat in beats if (time_ms := time_of(beat)) is not None), default=None)


def newest_loads(url: str, clock: Clock) -> tuple[NodeLoad, ...]:
    """Returns what each node measured of its load last, as ``newest_beats`` does."""
    if not is_postgres_url(url) and not board_path(sqlite_path_of(url)).exists():
        return ()
    with closing(open_board(url, clock)) as board:
        return board.loads()


def open_copy(url: str, clock: Clock) -> LogCopy:
    """Returns the log that is written; it opens its connection when it is used. Raises LogUrlMalformed,
    PostgresDriverMissing."""
    if not is_postgres_url(url):
        raise LogUrlMalformed(
            f"{url!r} is no place for a copy of the metadata; write postgresql://user@host/database?schema=siltstone"
        )
    place = postgres_place_of(url)
    copy: LogCopy = postgres_adapter("store.postgres.copying").PostgresCopy(place, clock)
    return copy
