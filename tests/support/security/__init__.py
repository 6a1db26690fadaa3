"""Users with passwords, for tests of logins."""
