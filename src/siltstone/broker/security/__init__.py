"""Who a client is, and what it may do: logins (``sasl``, ``authenticator``) stand before every handler."""
