"""The tables of docs/metadata-tables.md, made from the columns in the code.

``python tests/support/pages/metadata_tables_page.py`` writes them into the page, between its markers; ``tests/tidy``
compares.
"""

from pathlib import Path

from siltstone.metadata_tables.catalog import METADATA_TABLES
from siltstone.metadata_tables.columns import MetadataTable

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "metadata-tables.md"
BEGIN = "<!-- columns: made by tests/support/pages/metadata_tables_page.py -->"
END = "<!-- end of columns -->"


def section_of(table: MetadataTable) -> str:
    rows = [f"| `{each.name}` | {each.type.value} | {each.meaning} |" for each in table.columns]
    return "\n".join(
        [
            f"### {table.name}",
            "",
            table.meaning,
            "",
            "| column | type | what it says |",
            "|---|---|---|",
            *rows,
        ]
    )


def sections() -> str:
    return "\n\n".join(map(section_of, METADATA_TABLES.values()))


def written(text: str) -> str:
    """The page with its tables as they should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{sections()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
