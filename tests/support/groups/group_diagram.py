"""The diagram and the table of docs/groups.md, made from ``broker.groups.rules.states``.

``python tests/support/groups/group_diagram.py`` writes them into the file, between its markers; ``tests/tidy``
compares.
"""

from collections.abc import Mapping
from pathlib import Path

from siltstone.broker.groups.rules.states import TABLE, GroupEvent, GroupState, Rule

PAGE = Path(__file__).parents[3] / "docs" / "groups.md"
BEGIN = "<!-- {}: made by tests/support/groups/group_diagram.py -->"
NOT_RUN = "<!-- not run: a diagram, made from the table of states -->"
END = "<!-- end of {} -->"
WITH_ROWS = [state for state in GroupState if state is not GroupState.DEAD]


def diagram() -> str:
    """Changes of state alone, with all the events that make one on its arrow."""
    arrows: dict[tuple[GroupState, GroupState], list[str]] = {}
    for event, rules in TABLE.items():
        for state, rule in rules.items():
            if rule.to is not state:
                arrows.setdefault((state, rule.to), []).append(event.value)
    lines = [
        f"    {state.value} --> {to.value}: {'<br/>'.join(events)}" for (state, to), events in arrows.items()
    ]
    return "\n".join(
        [NOT_RUN, "```mermaid", "stateDiagram-v2", f"    [*] --> {GroupState.EMPTY.value}", *lines, "```"]
    )


def table() -> str:
    """Returns the table of every event in every state."""
    head = [
        "| event | " + " | ".join(state.value for state in WITH_ROWS) + " |",
        "|---" * (len(WITH_ROWS) + 1) + "|",
    ]
    return "\n".join([*head, *(_row(event, rules) for event, rules in TABLE.items())])


def _row(event: GroupEvent, rules: Mapping[GroupState, Rule]) -> str:
    cells = (_cell(state, rules.get(state)) for state in WITH_ROWS)
    return f"| {event.value} | {' | '.join(cells)} |"


def _cell(state: GroupState, rule: Rule | None) -> str:
    if rule is None:
        return ""
    if rule.refusal is not None:
        return f"`{rule.refusal.name}`"
    return "stays" if rule.to is state else f"→ {rule.to.value}"


def written(text: str) -> str:
    """The page with its made parts as they should be."""
    for name, content in (("diagram", diagram()), ("table", table())):
        begin, end = BEGIN.format(name), END.format(name)
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{content}\n{end}{after}"
    return text


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
