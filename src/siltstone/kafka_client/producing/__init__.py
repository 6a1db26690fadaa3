"""Records to a topic: ``producer`` is the way in; ``partitioner`` says where each goes, ``delivery`` brings it."""
