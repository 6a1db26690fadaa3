"""Shows the matrix as a table at the terminal and as the page ``docs/conformance.md``. It has results and nothing
else."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from conformance.clients import BY_ID
from conformance.features import FEATURES, TOOLS, Feature
from conformance.outcome import Outcome, Result

MARKS = {
    Outcome.WORKS: "works",
    Outcome.REFUSED: "refused",
    Outcome.NOT_ANNOUNCED: "not announced",
    Outcome.CLIENT_LACKS_IT: "–",
    Outcome.FAILS: "FAILS",
    Outcome.HANGS: "HANGS",
    Outcome.CRASHES: "CRASHES",
    Outcome.NOT_RUN: "not run",
}
_COLOURS = {Outcome.WORKS: "green", Outcome.CLIENT_LACKS_IT: "dim", Outcome.REFUSED: "yellow"}
BEGIN, END = "<!-- begin: written by make conformance -->", "<!-- end -->"


class Matrix(msgspec.Struct, frozen=True):
    """``versions``: the version that each client reports, by the id of the client; empty for clients that did not
    run."""

    versions: Mapping[str, str]
    results: tuple[Result, ...]
    exchanges: tuple[Result, ...] = ()
    """The results of each reader; the feature is the writer."""

    def of(self, client: str, feature: str) -> Result | None:
        return next((each for each in self.results if (each.client, each.feature) == (client, feature)), None)


def show(matrix: Matrix, console: Console) -> None:
    for features in (FEATURES, TOOLS):
        columns = _columns(matrix, features)
        if not columns:
            continue
        table = Table(title_justify="left")
        table.add_column("feature")
        for client in columns:
            table.add_column(BY_ID[client].title)
        for feature in _rows(matrix, features):
            table.add_row(feature.id, *(_coloured(matrix.of(client, feature.id)) for client in columns))
        console.print(table)
    _show_exchange(matrix, console)


def _show_exchange(matrix: Matrix, console: Console) -> None:
    worked = sum(result.outcome is Outcome.WORKS for result in matrix.exchanges)
    if matrix.exchanges:
        console.print(
            f"{worked} of {len(matrix.exchanges)} pairs of writer and reader understand each other's codecs"
        )


def write(matrix: Matrix, page: Path) -> None:
    """Writes the matrix into the page, between its marks."""
    before, _, rest = page.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{markdown(matrix)}\n{END}{after}")


def markdown(matrix: Matrix) -> str:
    notes: dict[str, int] = {}
    tables = [
        _markdown_table(matrix, features, notes)
        for features in (FEATURES, TOOLS)
        if _columns(matrix, features)
    ]
    lines = [*_versions(matrix), "", *(line for table in tables for line in table)]
    lines += _exchange_table(matrix, notes)
    if notes:
        lines += ["What does not work, or only in part:", ""]
        lines += [f"{number}. {text}" for text, number in notes.items()]
    return "\n".join(lines).rstrip() + "\n"


def _versions(matrix: Matrix) -> list[str]:
    told = [f"{BY_ID[client].title} {version}" for client, version in matrix.versions.items() if version]
    return [f"Clients: {', '.join(told)}."]


def _markdown_table(matrix: Matrix, features: Sequence[Feature], notes: dict[str, int]) -> list[str]:
    columns = _columns(matrix, features)
    lines: list[str] = []
    for part, rows in groupby(_rows(matrix, features), lambda feature: feature.part):
        lines += [f"### {part}", "", f"| | {' | '.join(BY_ID[client].title for client in columns)} |"]
        lines.append(f"| --- |{' --- |' * len(columns)}")
        for feature in rows:
            cells = [_cell(matrix.of(client, feature.id), notes) for client in columns]
            lines.append(f"| {feature.title} | {' | '.join(cells)} |")
        lines.append("")
    return lines


def _exchange_table(matrix: Matrix, notes: dict[str, int]) -> list[str]:
    if not matrix.exchanges:
        return []
    clients = [*dict.fromkeys(result.client for result in matrix.exchanges)]
    by_pair = {(result.client, result.feature): result for result in matrix.exchanges}
    lines = ["### Reading what others wrote, with each codec and none", ""]
    lines += [f"| writer \\ reader | {' | '.join(BY_ID[client].title for client in clients)} |"]
    lines += [f"| --- |{' --- |' * len(clients)}"]
    for writer in clients:
        cells = [_cell(by_pair.get((reader, writer)), notes) for reader in clients]
        lines.append(f"| {BY_ID[writer].title} | {' | '.join(cells)} |")
    return [*lines, ""]


def _cell(result: Result | None, notes: dict[str, int]) -> str:
    if result is None:
        return ""
    if not result.detail:
        return MARKS[result.outcome]
    number = notes.setdefault(result.detail.replace("|", "\\|"), len(notes) + 1)
    return f"{MARKS[result.outcome]} ({number})"


def _columns(matrix: Matrix, features: Sequence[Feature]) -> list[str]:
    ids = {feature.id for feature in features}
    return [*dict.fromkeys(result.client for result in matrix.results if result.feature in ids)]


def _rows(matrix: Matrix, features: Sequence[Feature]) -> list[Feature]:
    tried = {result.feature for result in matrix.results}
    return [feature for feature in features if feature.id in tried]


def _coloured(result: Result | None) -> str:
    if result is None:
        return ""
    return f"[{_COLOURS.get(result.outcome, 'red')}]{MARKS[result.outcome]}[/]"
