"""The rows of the commands for erasures."""

from support.terminal.cases import NO_STORE, Case, State, begun, row

ERASURE_ROWS: dict[str, dict[State, Case | str]] = {
    "erase": row(
        Case(
            "erase kept --key k --leave-tables --dry-run --runner in-process --store {tabled}",
            shows="0 records",
        ),
        Case("erase kept --yes --runner in-process --store {tabled}", 2, "no key was given"),
        Case(
            "erase nosuch --key k --yes --runner in-process --store {tabled}", 2, "there is no topic nosuch"
        ),
        begun("erase kept --key k --dry-run --runner in-process --store {tabled}"),
    ),
    "erasures": row(
        Case("erasures --store {done}", shows="Nothing was erased by key"),
        Case("erasures --store {tabled}", shows="Nothing was erased by key"),
        Case("erasures --store {nowhere}", 2, NO_STORE),
        begun("erasures --store {tabled}"),
    ),
    "erasures list": row(
        Case("erasures list --store {done}", shows="Nothing was erased by key"),
        Case("erasures list --store {tabled}", shows="Nothing was erased by key"),
        Case("erasures list --store {nowhere}", 2, NO_STORE),
        begun("erasures list --store {tabled}"),
    ),
    "erasures resume": row(
        "it is told what to resume",
        "tests/unit/cli/erase/test_erasures.py resumes one there",
        Case("erasures resume nosuch --runner in-process --store {tabled}", 2, "there is no erasure nosuch"),
        begun("erasures resume nosuch --runner in-process --store {tabled}"),
    ),
    "erasures report": row(
        "it is told what to report",
        "tests/unit/cli/erase/test_erasures.py reports one there",
        Case("erasures report nosuch --store {tabled}", 2, "there is no erasure nosuch"),
        begun("erasures report nosuch --store {tabled}"),
    ),
    "erasures forget": row(
        "it is told what to forget",
        "tests/unit/cli/erase/test_erasures.py forgets one there",
        Case("erasures forget nosuch --yes --store {tabled}", 2, "there is no erasure nosuch"),
        begun("erasures forget nosuch --yes --store {tabled}"),
    ),
}
