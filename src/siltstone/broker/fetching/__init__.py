"""What a fetch asks for, how it is gathered, and how long it waits."""
