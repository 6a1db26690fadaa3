"""Runs the cells of a notebook in this process, one after another, as a Jupyter kernel does: the value of a last
expression is shown. That is enough to see that a notebook runs; another test shows it in Jupyter."""

import ast
import json
from pathlib import Path
from typing import Any

REPRS = ("_repr_html_", "_repr_markdown_")


def code_cells(file: Path, without_tag: str = "") -> list[str]:
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return [
        "".join(cell["source"])
        for cell in cells
        if cell["cell_type"] == "code" and without_tag not in cell["metadata"].get("tags", ())
    ]


def run_cells(file: Path, scope: dict[str, Any], without_tag: str = "") -> list[str | None]:
    """Returns what each cell shows: HTML if the value has some, else its repr; None for a cell that shows nothing.
    ``scope`` gets the names that the cells define. Cells with the tag are left out. An exception has the number of its
    cell as a note."""
    scope["__name__"] = "__main__"
    shown: list[str | None] = []
    for number, source in enumerate(code_cells(file, without_tag)):
        try:
            shown.append(_shown(_value(source, f"{file.name} cell {number}", scope)))
        except BaseException as failure:
            failure.add_note(f"in code cell {number} of {file.name}:\n{source}")
            raise
    return shown


def _value(source: str, name: str, scope: dict[str, Any]) -> Any:
    parsed = ast.parse(source, name)
    last = parsed.body.pop() if parsed.body and isinstance(parsed.body[-1], ast.Expr) else None
    exec(compile(parsed, name, "exec"), scope)
    return None if last is None else eval(compile(ast.Expression(last.value), name, "eval"), scope)


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    for name in REPRS:
        made = getattr(value, name, None)
        if made is not None and (text := made()) is not None:
            return str(text)
    return repr(value)
