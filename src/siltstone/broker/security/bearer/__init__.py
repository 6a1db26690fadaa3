"""Bearer tokens (OAUTHBEARER). ``settings`` says whose tokens a listener takes, ``tokens`` checks one, ``keys`` reads
and renews the keys of the issuer, ``key_set`` is the format of those keys. PyJWT is imported for the first keys.
"""
