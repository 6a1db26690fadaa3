"""``make profile``: where a produce and a fetch spend the broker's time.

A broker as ``siltstone serve`` runs it, py-spy beside it, confluent-kafka in a process of its own. Shares are of one
core while the work continues; what is missing from 100 % on the event loop's thread is waiting. Figures of the machine,
no ratios: they tell where to look, the benchmarks tell whether it helped.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from benchmarks.brokers.client import Consume, Produce, Target, Throughput
from benchmarks.brokers.client_runs import answer_of, begun
from benchmarks.brokers.contenders import SILTSTONE
from benchmarks.brokers.measuring import Round, Scale
from benchmarks.support.places import folder
from benchmarks.support.samples import Sample, functions, parse_samples, places
from siltstone.model.limits import KIB

BATCH_BYTES = (16 * KIB, 128 * KIB)
SAMPLES_PER_SECOND = 250
SECONDS = 8.0
EDGE_SECONDS = 1.0
"""The client connects before the measurement, and empties its queue after it."""
BYTES_MAX = 1 << 50
FUNCTIONS_SHOWN_MAX = 12


class Profile(msgspec.Struct, frozen=True):
    """``size_bytes`` were moved in ``seconds``, as the client reports, for orientation."""

    title: str
    samples: list[Sample]
    taken: int
    throughput: Throughput

    def share(self, count: int) -> float:
        return count / self.taken


def main(seconds: float = SECONDS) -> int:
    console = Console()
    if not py_spy().exists():
        console.print("py-spy is not installed: make set-up, or pip install py-spy")
        return 2
    for profile in profiles(seconds):
        show(profile, console)
    return 0


def profiles(seconds: float) -> list[Profile]:
    with folder() as place, SILTSTONE.prepared(place).started() as broker:
        round_ = Round(broker, Scale())
        round_.warm_up()
        made: list[Profile] = []
        for batch_bytes in BATCH_BYTES:
            target = round_.new_topic(f"batches-{batch_bytes}")
            made.append(produced(broker.pid, target, batch_bytes, seconds))
            made.append(fetched(broker.pid, target, batch_bytes, made[-1].throughput.records, seconds))
        return made


def produced(pid: int, target: Target, batch_bytes: int, seconds: float) -> Profile:
    with begun(target, Produce(batch_bytes, BYTES_MAX, seconds + 2 * EDGE_SECONDS)) as client:
        time.sleep(EDGE_SECONDS)
        text = recorded(pid, seconds, lambda: None)
        throughput = client.answer(Throughput)
    return _profile(f"produce, batches of {batch_bytes // KIB} KiB", text, seconds, throughput)


def fetched(pid: int, target: Target, batch_bytes: int, records: int, seconds: float) -> Profile:
    """Reads the same records again and again from the beginning, since one consumer has them soon."""
    answers: list[Throughput] = []
    task = Consume(records, seconds)
    text = recorded(pid, seconds, lambda: answers.append(answer_of(target, task, Throughput)))
    together = Throughput(
        sum(each.records for each in answers),
        sum(each.seconds for each in answers),
        sum(each.client_cpu_seconds for each in answers),
    )
    return _profile(f"fetch, batches of {batch_bytes // KIB} KiB", text, seconds, together)


def recorded(pid: int, seconds: float, meanwhile: Callable[[], None]) -> str:
    """Runs py-spy. Raises CalledProcessError, with py-spy's own output on stderr."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "samples"
        command = [
            str(py_spy()), "record", "--pid", str(pid), "--duration", f"{seconds:.0f}", "--threads",
            "--rate", str(SAMPLES_PER_SECOND), "--format", "raw", "--function", "--output", str(out),
        ]  # fmt: skip
        with subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        ) as spying:
            while spying.poll() is None:
                meanwhile()
                time.sleep(0.05)
            if spying.returncode:
                print(spying.stderr.read() if spying.stderr else "", file=sys.stderr)
                raise subprocess.CalledProcessError(spying.returncode, command)
        return out.read_text()


def py_spy() -> Path:
    return Path(sys.executable).with_name("py-spy")


def _profile(title: str, text: str, seconds: float, throughput: Throughput) -> Profile:
    return Profile(title, parse_samples(text), round(seconds * SAMPLES_PER_SECOND), throughput)


def show(profile: Profile, console: Console) -> None:
    speed = profile.throughput.size_bytes / 1e6 / profile.throughput.seconds
    console.print(f"[bold]{profile.title}[/], {speed:,.0f} MB/s")
    console.print(_table("where", place_rows(profile)))
    ran = functions(profile.samples).most_common(FUNCTIONS_SHOWN_MAX)
    console.print(_table("function", [(name, profile.share(count)) for name, count in ran]))
    console.print()


def place_rows(profile: Profile) -> list[tuple[str, float]]:
    """Returns the packages on the loop by size, the waiting of the loop, then the threads beside it."""
    on_loop: Counter[str] = places(each for each in profile.samples if each.is_of_the_loop)
    beside = places(each for each in profile.samples if not each.is_of_the_loop)
    waiting = ("event loop: waiting", max(0.0, 1 - profile.share(on_loop.total())))
    return [
        *((name, profile.share(count)) for name, count in on_loop.most_common()),
        waiting,
        *((name, profile.share(count)) for name, count in beside.most_common()),
    ]


def _table(heading: str, rows: list[tuple[str, float]]) -> Table:
    table = Table(show_edge=False, box=None)
    table.add_column(heading, overflow="fold", min_width=48)
    table.add_column("of a core", justify="right")
    for name, share in rows:
        table.add_row(name, f"{share:.1%}")
    return table


if __name__ == "__main__":
    sys.exit(main(*map(float, sys.argv[1:])))
