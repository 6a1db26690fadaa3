"""Brokers side by side: ``contenders`` says which, ``client`` is what each is put to, ``measuring`` what is measured of
one of them; ``benchmarks.kafka`` has them take turns."""
