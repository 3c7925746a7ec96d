"""The jobs of this user on this machine, a file for each, so that commands find them by name."""
