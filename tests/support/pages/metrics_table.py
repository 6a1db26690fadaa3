"""The tables of docs/metrics.md, made from the table of metrics in the code.

``python tests/support/pages/metrics_table.py`` writes them into the page, between its markers; ``tests/tidy`` compares.
"""

from collections.abc import Sequence
from pathlib import Path

from siltstone.server.admin import families
from siltstone.server.admin.exposition import MetricFamily

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "metrics.md"
BEGIN, END = "<!-- metrics: made by tests/support/pages/metrics_table.py -->", "<!-- end of metrics -->"

SECTIONS: dict[str, Sequence[MetricFamily]] = {
    "The process": families.PROCESS,
    "Requests, connections and topics": families.NETWORK,
    "Appends, the write-ahead log and uploads": families.ENGINE,
    "Caches": families.CACHES,
    "Buckets, objects and disks": families.STORE,
    "Metadata": families.METADATA,
    "Consumer groups": families.GROUPS,
    "Maintenance (`siltstone maintain serve`)": families.MAINTENANCE,
}


def row_of(family: MetricFamily) -> str:
    labels = ", ".join(family.labels)
    return f"| `{family.sample_name}` | {family.type.value} | {labels} | {family.unit} | {family.help} |"


def tables() -> str:
    parts = []
    for title, of_section in SECTIONS.items():
        rows = [
            "| metric | type | labels | unit | what it says |",
            "|---|---|---|---|---|",
            *map(row_of, of_section),
        ]
        parts.append("\n".join([f"### {title}", "", *rows]))
    return "\n\n".join(parts)


def written(text: str) -> str:
    """The page with its tables as they should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
