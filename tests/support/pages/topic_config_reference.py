"""The table of docs/topic-configurations.md, made from ``topic_configs.rows``.

``python tests/support/pages/topic_config_reference.py`` writes it into the file, between its markers; ``tests/tidy``
looks.
"""

from pathlib import Path

from siltstone.topic_configs.rows import TABLE, ConfigRow

PAGE = Path(__file__).parents[3] / "docs" / "topic-configurations.md"
BEGIN = "<!-- configurations: made by tests/support/pages/topic_config_reference.py -->"
END = "<!-- end of configurations -->"


def configurations_table() -> str:
    rows = ["| configuration | effect | type | default | broker-level name | |", "|---|---|---|---|---|---|"]
    return "\n".join(rows + [_line(row) for row in TABLE.values()])


def _line(row: ConfigRow) -> str:
    default = f"`{row.default}`" if row.default else "empty"
    synonym = f"`{row.synonyms[0]}`" if row.synonyms else ""
    kind = row.kind.name.lower()
    return f"| `{row.name}` | {row.effect.value} | {kind} | {default} | {synonym} | {row.documentation} |"


def written(text: str) -> str:
    """The page with its table as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{configurations_table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
