"""What goes along with a training and has a state of its own: a part of the training's."""
