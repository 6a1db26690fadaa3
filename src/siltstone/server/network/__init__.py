"""TCP for the broker: receives frames, passes them to a handler, sends its answers, and limits everything.

The only fact about Kafka that this package knows is that a request begins with its size in four bytes. An *answer* is a
list of buffers, which are sent without being joined.

Read ``connection`` first, which the event loop calls. Then ``frame_reader`` (splits received bytes into frames),
``request_pipeline`` (turns frames into answers, in order), ``connections`` (all connections of a node: admission, and
closing of idle and slow ones) and ``listeners`` (accepts connections). ``parts`` is what connections share:
``request_memory`` and ``answer_memory`` limit memory, with a ``waiting_line`` for connections that have to wait.
``addresses`` and ``sockets`` parse and bind listeners.

A listener may encrypt: ``accepting`` counts a connection, completes its handshake (``handshakes``) with what ``tls``
made of the files in its ``listener_settings``, and ``principal_mapping`` names the client by its certificate.
``certificates`` reads the files again, ``tls_transport`` stands below a connection, and ``self_signed`` makes a
certificate for a first try.
"""
