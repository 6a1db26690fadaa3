"""Key compaction: of each key only the newest record stays (RocketMQ's compaction topic, Kafka's log cleaner).

``unit`` (what a task is given, and what it answers), ``planning`` (which streams, how far: pure), ``rewriting`` (the
task: decode, map, filter, write), ``kind`` (plan, job, commit for each stream).

The only part of maintenance that looks into record batches. Rules G1 to G34 are those of
reference/key-compaction-retention-gc.md, section 2.2.
"""
