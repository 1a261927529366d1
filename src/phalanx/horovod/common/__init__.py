"""What Horovod's frameworks share, where Horovod has it."""
