"""Produces records to a topic: ``producer`` chooses partitions and builds batches, ``delivery`` sends each exactly
once."""
