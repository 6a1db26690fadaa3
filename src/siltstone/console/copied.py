"""The same records in code: what a page offers to copy. Pure."""

import shlex
from datetime import UTC, datetime

from siltstone.console.messages import MessagesWanted


def copied(place: str, topic: str, wanted: MessagesWanted) -> dict[str, str]:
    """Returns a text for each way to read the same records: title → code. ``place`` names the store on a command
    line."""
    store = shlex.split(place)[-1]
    words = _words(wanted)
    options = "".join(f'.option("{name}", {value!r})' for name, value in _options(wanted))
    condition = f" where {wanted.condition}" if wanted.condition else ""
    query = f"select * from {_quoted(topic)}{condition} limit {wanted.count}"  # noqa: S608  it is shown, and not run
    scan = ", ".join([repr(topic), f"store={store!r}", *words])
    times = "from datetime import datetime\n" if wanted.from_ms is not None else ""
    return {
        "Python": f"{times}import siltstone\n\nscan = siltstone.scan({scan})\nprint(scan.to_polars())",
        "PySpark": f'frame = (spark.read.format("siltstone").option("store", {store!r})\n'
        f'         .option("subscribe", {topic!r}){options}.load())\nframe.show()',
        "SQL": f"siltstone sql {place} {shlex.quote(query)}",
        "Command": f"siltstone tail {shlex.quote(topic)} --last {wanted.count} --until-end",
    }


def _words(wanted: MessagesWanted) -> list[str]:
    words = []
    if len(wanted.partitions) == 1:
        words.append(f"partitions={list(wanted.partitions)!r}")
    if wanted.from_ms is not None:
        words.append(f"start=datetime.fromisoformat({_time(wanted.from_ms)!r})")
    elif wanted.start is not None:
        words.append(f"start={dict(wanted.start)!r}")
    if wanted.before is not None:
        words.append(f"end={dict(wanted.before)!r}")
    if wanted.value:
        words.append(f"value={wanted.value!r}")
    if wanted.isolation != "committed":
        words.append(f"isolation={wanted.isolation!r}")
    return words


def _options(wanted: MessagesWanted) -> list[tuple[str, str]]:
    options = []
    if wanted.from_ms is not None:
        options.append(("startingTimestamp", str(wanted.from_ms)))
    if wanted.isolation != "committed":
        options.append(("isolation", wanted.isolation))
    if wanted.value:
        options.append(("value", wanted.value))
    return options


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()


def _quoted(topic: str) -> str:
    return '"' + topic.replace('"', '""') + '"'
