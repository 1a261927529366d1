"""The flags of commands, made from the table of settings."""
