"""Consumer groups, the classic protocol: who is a member, who has which partitions, how far each group has read.

Start with ``rules.states`` (the table), then ``rules`` (decisions, pure), ``offsets_log`` (what is written down),
``coordinator`` (what performs decisions), ``groups`` (all coordinators of this node), ``apis`` (Kafka's requests).
"""
