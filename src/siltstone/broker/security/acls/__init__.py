"""The rules of authorization without state: ``matching`` answers a question from bindings, ``filters`` finds bindings,
``required`` says what each API asks. ``broker.security.authorizer`` asks.
"""
