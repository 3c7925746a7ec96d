"""What of a program's stateful functions runs as it is: the command ``mainstay check``."""
