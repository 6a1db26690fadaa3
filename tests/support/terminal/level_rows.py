"""The rows of the commands about the level of a store."""

from support.terminal.cases import NO_STORE, Case, State, begun, row

LEVEL_ROWS: dict[str, dict[State, Case | str]] = {
    "status": row(
        Case("status --store {empty}", shows="has no nodes yet"),
        Case("status --store {store}", shows="The way back is open"),
        Case("status --store {nowhere}", 2, NO_STORE),
        begun("status --store {store}"),
    ),
    "upgrade": row(
        Case("upgrade --to 1 --store {empty}", shows="has level 1 already"),
        Case("upgrade --dry-run --store {empty}", shows="would be raised from level 1"),
        Case("upgrade --to 99 --store {empty}", 2, "knows levels 1 to"),
        begun("upgrade --store {empty}"),
    ),
}
