"""What strategies are made of: passes, part gradients, updates, buffers, a server's messages."""
