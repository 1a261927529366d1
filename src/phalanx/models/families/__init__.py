"""One file a family of models, each with its `build`."""
