"""The configurations of one topic as a form: each value with its source, checked by the broker before all are set.

The form has three fields for a configuration: its value, the value that was shown (``was``), and a box that takes it
back to the default. What is refused is shown at its field, and whatever was typed stays in the form.
"""

import shlex
from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

import msgspec
from starlette.responses import RedirectResponse, Response

from siltstone.console.application import Asked, PageRefused
from siltstone.console.pages.topics import topic_of
from siltstone.console.store import ConsoleStore
from siltstone.console.views.topics import ConfigView, configs_shown
from siltstone.console.visitors import Visitor
from siltstone.kafka_client.configs import change_configs
from siltstone.kafka_client.failures import KafkaRefusal
from siltstone.kafka_protocol.error_code import ErrorCode
from siltstone.model.errors import SiltstoneError
from siltstone.offline.opening.topic_assignments import assignment_hint, forgotten_unit, without_effect
from siltstone.offline.opening.values import topic_config_text


class ConfigField(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration of the form. ``shown``: the value now; ``typed``: the one in the field."""

    name: str
    shown: str
    typed: str
    source: str
    documentation: str
    is_reset: bool = False
    problem: str = ""


class ConfigChange(msgspec.Struct, frozen=True):
    """``assigned``: new values by name, as Kafka writes them; ``removed``: names that go back to their defaults."""

    assigned: Mapping[str, str]
    removed: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.assigned, *self.removed)


async def configs(asked: Asked) -> Response:
    """The form."""
    found = topic_of(asked)
    _refuse_unseen(asked, found.name)
    fields = [_plain(each) for each in configs_shown(asked.store.image, found)]
    return _page(asked, found.name, fields, done=asked.query("changed") == "1")


async def configure(asked: Asked) -> Response:
    """Sets what was typed, all of it or nothing."""
    found = topic_of(asked)
    _refuse_unseen(asked, found.name)
    if not asked.visitor.changes_configs(found.name):
        raise PageRefused(403, f"{asked.visitor.name} may not alter configurations of {found.name}")
    fields = [_typed(each, asked.form) for each in configs_shown(asked.store.image, found)]
    change = _change(fields)
    if not change.names:
        return _page(
            asked, found.name, fields, refusal="nothing was changed: no value differs from what is set"
        )
    if any(each.problem for each in fields):
        return _page(asked, found.name, fields, 409, refusal="nothing was changed: look at the marked values")
    try:
        problems = await asked.run(partial(_configured, asked.store, asked.visitor, found.name, change))
    except SiltstoneError as trouble:
        status = 400 if isinstance(trouble, KafkaRefusal) else 503
        return _page(asked, found.name, fields, status, refusal=f"nothing was changed: {trouble}")
    if problems:
        marked = [
            msgspec.structs.replace(each, problem=problems.get(each.name, each.problem)) for each in fields
        ]
        return _page(asked, found.name, marked, 400, refusal="nothing was changed: a value was refused")
    await asked.store.refresh()
    return RedirectResponse(f"/topics/{quote(found.name, safe='')}/configs?changed=1", 303)


def _refuse_unseen(asked: Asked, topic: str) -> None:
    """Raises PageRefused. Some may describe a topic, and not its configurations, as in Kafka."""
    if not asked.visitor.describes_configs(topic):
        raise PageRefused(
            403, f"{asked.visitor.name} may not see configurations of {topic}: DESCRIBE_CONFIGS is the right"
        )


def _configured(store: ConsoleStore, visitor: Visitor, topic: str, change: ConfigChange) -> dict[str, str]:
    """Sets the configurations, in a thread; or returns what is wrong, by name. Raises KafkaRefusal for what is wrong
    with all of them together, or with the topic."""
    with store.cluster(visitor) as cluster:
        try:
            change_configs(cluster, topic, change.assigned, change.removed, validate_only=True)
        except KafkaRefusal as refusal:
            if refusal.code is not ErrorCode.INVALID_CONFIG:
                raise
            problems = {}
            for name in change.names:
                assigned = {name: change.assigned[name]} if name in change.assigned else {}
                removed = () if assigned else (name,)
                try:
                    change_configs(cluster, topic, assigned, removed, validate_only=True)
                except KafkaRefusal as of_one:
                    hint = assignment_hint(name, change.assigned.get(name, "0"))
                    problems[name] = f"{of_one}" if hint is None else f"{str(of_one).rstrip('.')}: {hint}"
            if not problems:
                raise
            return problems
        change_configs(cluster, topic, change.assigned, change.removed)
        return {}


def _plain(view: ConfigView) -> ConfigField:
    return ConfigField(
        name=view.name,
        shown=view.value,
        typed=view.value,
        source=view.source,
        documentation=view.documentation,
    )


def _typed(view: ConfigView, form: Mapping[str, str]) -> ConfigField:
    """Returns the field as it was typed. A value that is not the one that was shown any more is a problem."""
    plain = _plain(view)
    typed = form.get(f"value.{view.name}", view.value).strip()
    was = form.get(f"was.{view.name}", view.value)
    is_reset = bool(form.get(f"reset.{view.name}"))
    if typed == was and not is_reset:
        return plain
    problem = f"it is {view.value} now, and was {was} when the form was shown" if was != view.value else ""
    return msgspec.structs.replace(plain, typed=typed, is_reset=is_reset, problem=problem)


def _change(fields: list[ConfigField]) -> ConfigChange:
    changed = [each for each in fields if each.is_reset or each.typed != each.shown or each.problem]
    return ConfigChange(
        {each.name: topic_config_text(each.name, each.typed) for each in changed if not each.is_reset},
        tuple(each.name for each in changed if each.is_reset),
    )


def _page(
    asked: Asked,
    topic: str,
    fields: list[ConfigField],
    status: int = 200,
    *,
    refusal: str = "",
    done: bool = False,
) -> Response:
    set_here = {each.name: each.shown for each in fields if each.source == "topic"}
    notes = [
        note
        for name, value in set_here.items()
        for note in (forgotten_unit(name, value), without_effect(name, value))
        if note and done
    ]
    change = _change(fields)
    words = [f"{name}={value}" for name, value in change.assigned.items()] or ["retention.ms=7d"]
    words += [f"--remove={name}" for name in change.removed]
    command = " ".join(["siltstone topics configure", shlex.quote(topic), *map(shlex.quote, words)])
    return asked.page(
        "configs.html", status, name=topic, fields=fields, refusal=refusal, done=done, notes=notes,
        may=asked.visitor.changes_configs(topic), command_line=command,
    )  # fmt: skip
