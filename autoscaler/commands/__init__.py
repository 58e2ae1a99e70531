"""The command line, one file a command, with no decision in it."""
