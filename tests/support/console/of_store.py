"""The console of a store, asked in this process."""

import asyncio
import json
from pathlib import Path

from siltstone.console.application import Console
from siltstone.console.pages import PAGES
from siltstone.console.runs import RunState
from siltstone.console.store import ConsoleLimits, OpenedStore
from siltstone.console.visitors import Visitor
from siltstone.offline.opening.store import open_store
from siltstone.runtime.clock import SystemClock
from siltstone.server.settings.node import load_node_settings
from support.console.asking import Answer, ask


class ConsoleOfAStore:
    """A console whose visitor can be exchanged."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.visitor = Visitor("ada", "form-token", may_change=True)
        self.limits = ConsoleLimits()
        self.newest_run: RunState | None = None

    async def visitor_of(self, _: object) -> Visitor:
        return self.visitor

    def ask(self, path: str, **more: object) -> Answer:
        async def asked() -> Answer:
            with open_store(load_node_settings(self.folder)) as store:
                opened = OpenedStore(store, f"--store {self.folder}", SystemClock(), limits=self.limits)
                opened.runs.newest = self.newest_run
                try:
                    store.metadata.refresh()
                    console = Console(opened, self, PAGES, {"127.0.0.1"}.__contains__)
                    answer = await ask(console.application, path, **more)  # type: ignore[arg-type]
                    await opened.runs.ended()
                    self.newest_run = opened.runs.newest
                    return answer
                finally:
                    await opened.close()

        return asyncio.run(asked())

    def lines(self, path: str) -> list[dict]:
        return [json.loads(line) for line in self.ask(path).text.splitlines()]
