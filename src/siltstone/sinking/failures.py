"""The errors with which a batch of a sink is refused or fails, one class for each cause."""

from siltstone.model.errors import CorruptData, InvalidRequest, Unavailable


class SinkRefused(InvalidRequest):
    """The options or the columns of a sink are wrong."""


class RowRefused(InvalidRequest):
    """The topic would refuse the record of a row, or the row names no topic or partition that exists. Nothing was
    written."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"a row for {what} cannot be written: {reason}; no row of the batch was written")
        self.what = what


class TopicGoneForSink(InvalidRequest):
    """A topic was deleted, or created again, since the rows for it were staged."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"topic {topic} was deleted or created again since the rows for it were staged: nothing was written; write"
            " the batch again"
        )
        self.topic = topic


class SinkBatchStuck(InvalidRequest):
    """A batch that was started cannot be finished without writing a record twice or leaving one out."""

    def __init__(self, sink_id: str, batch_id: int, partition: str, reason: str) -> None:
        super().__init__(
            f"batch {batch_id} of sink {sink_id} is stuck at {partition}: {reason}. Some of its records may have been"
            f" written, none of them twice; siltstone sinks list --store STORE shows the batch, siltstone sinks abandon"
            f" {sink_id} gives the rest of it up"
        )
        self.sink_id, self.batch_id, self.partition = sink_id, batch_id, partition


class SinkTransactionTooLong(Unavailable):
    """The brokers have aborted the transaction of a batch, because it was open for longer than its time-out. Readers of
    committed records see nothing of it."""

    def __init__(self, sink_id: str, batch_id: int, timeout_ms: int) -> None:
        super().__init__(
            f"the transaction of batch {batch_id} of sink {sink_id} was open for longer than {timeout_ms // 1000} s,"
            " and the brokers have aborted it: give option transactionTimeout more, or make the batches smaller"
        )
        self.sink_id, self.batch_id, self.timeout_ms = sink_id, batch_id, timeout_ms


class SinkOutcomeUnknown(Unavailable):
    """The metadata store did not say whether the commit of a batch was applied. Writing the same batch again finds
    out."""

    def __init__(self, sink_id: str, batch_id: int) -> None:
        super().__init__(
            f"the metadata store did not say whether batch {batch_id} of sink {sink_id} was committed: write the same"
            " batch again, which finds out and writes nothing twice"
        )
        self.sink_id, self.batch_id = sink_id, batch_id


class BrokerNotFound(Unavailable):
    """No broker of the store can be asked to write the batch."""


class ManifestDamaged(CorruptData):
    """The manifest of a batch, or a part that it names, is not what was staged."""
