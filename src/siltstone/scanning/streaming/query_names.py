"""How a stream learns the name of its query.

Spark tells the process that plans a source in Python neither the name nor the id of the query. The tasks of a
micro-batch know both. So the first task of the first micro-batch is *asked*: it puts a small object into the bucket
that it reads, the process that plans reads it when the micro-batch is over, and deletes it. The id stays the same for
as long as the query keeps its checkpoint.

    staging/queries/<32 hex digits>.json        {"name":"orders","id":"0f1e…"}

A task that cannot write there is passed over, and the query then has no group by itself.
"""

import logging

import msgspec

from siltstone.metadata.sinks import STAGING_PREFIX
from siltstone.model.errors import SiltstoneError
from siltstone.model.limits import DAY_MS, DELETE_BATCH_KEYS_MAX
from siltstone.object_store.port import ObjectAlreadyExists, ObjectNotFound, ObjectStore
from siltstone.offline.context import MaintenanceContext
from siltstone.offline.tasks.source_bytes import store_at
from siltstone.runtime.randomness import Random, random_token

log = logging.getLogger(__name__)

FOLDER = f"{STAGING_PREFIX}queries/"
ANSWER_BYTES_MAX = 4_096
NAME_CHARACTERS_MAX = 200
"""Kafka's names of groups have 249 characters at most in many tools."""

ASKED_MAX = 3
"""A query whose first micro-batches do not answer, because its workers may only read, is not asked for ever."""


class StreamQuery(msgspec.Struct, frozen=True):
    """A query of the engine. ``name`` is empty if the user gave it none; ``id`` is kept in its checkpoint."""

    name: str
    id: str

    @property
    def group_id(self) -> str:
        """The consumer group under whose name tools show the query."""
        return self.name[:NAME_CHARACTERS_MAX] or f"spark-{self.id}"


class QueryQuestion(msgspec.Struct, frozen=True):
    """Says where a task puts the answer."""

    bucket_url: str
    key: str


def answer(question: QueryQuestion, query: StreamQuery) -> None:
    """Puts the answer into the bucket. A failure is logged: no record depends on it."""
    try:
        data = msgspec.json.encode(
            msgspec.structs.replace(query, name=query.name[:NAME_CHARACTERS_MAX], id=query.id[:100])
        )
        store_at(question.bucket_url).put_if_absent(question.key, (data,))
    except ObjectAlreadyExists:
        return  # another attempt of the task
    except SiltstoneError as trouble:
        log.info("the name of the query cannot be told, so it has no group by itself: %s", trouble)


class QueryNaming:
    """The questions of one stream, and what it knows."""

    def __init__(self) -> None:
        self._question: QueryQuestion | None = None
        self._asked = 0

    def ask(self, source: MaintenanceContext, bucket_url: str) -> QueryQuestion | None:
        """Returns the question for a task of the next micro-batch; None if it is not to be asked any more."""
        if self._asked >= ASKED_MAX or source.metadata.read_only_note:
            return None
        if not self._asked:
            _delete_old(store_at(bucket_url), source.now_ms())
        self._asked += 1
        self._question = QueryQuestion(bucket_url, _key(source.rng))
        return self._question

    def learned(self) -> StreamQuery | None:
        """Returns the answer to the last question, which is deleted; None if there is none. No failure is raised."""
        question, self._question = self._question, None
        if question is None:
            return None
        try:
            store = store_at(question.bucket_url)
            size_bytes = store.head(question.key).size_bytes
            data = store.get_range(question.key, 0, min(size_bytes, ANSWER_BYTES_MAX))
            store.delete([question.key])
            found = msgspec.json.decode(data, type=StreamQuery)
        except ObjectNotFound:
            return None
        except (SiltstoneError, msgspec.MsgspecError) as trouble:
            log.info("the name of the query cannot be read, so it has no group by itself: %s", trouble)
            return None
        return found


def _key(rng: Random) -> str:
    return f"{FOLDER}{random_token(rng)}.json"


def _delete_old(store: ObjectStore, now_ms: int) -> None:
    """Deletes the answers of queries that ended before they read them."""
    try:
        old = [each.key for each in store.list(FOLDER) if each.modified_ms < now_ms - DAY_MS]
        if old:
            store.delete(old[:DELETE_BATCH_KEYS_MAX])
    except SiltstoneError as trouble:
        log.info("answers of earlier queries cannot be deleted now: %s", trouble)
