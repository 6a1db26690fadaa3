"""Topics as clients know them: names, configurations, and which there are. Next: ``registry``."""
