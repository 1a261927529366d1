"""One file a format or data set."""
