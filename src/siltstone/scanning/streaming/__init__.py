"""Streaming: a query that reads topics batch after batch, each batch as a scan with settled offsets.

A *stream position* says how far a query has read: the next offset of each partition, by topic id. The query's engine
(Spark) keeps positions in its checkpoint and asks for the next one; the records between two positions are a
*micro-batch*. A position never goes back, so no record is read twice, and it names topics by their ids, so a topic that
was deleted and created again is never taken for the old one.

Reading order: ``position`` (what a checkpoint holds), ``advancing`` (pure: position and ends → next position),
``owners`` (the ends that brokers report), ``batch_pins`` (keeps the objects of a micro-batch), ``topic_stream`` (uses
all of these).
"""
