"""Brokers side by side: ``contenders`` lists them, ``client`` has the loads, and ``measuring`` measures one broker;
``benchmarks.kafka`` measures them in turn."""
