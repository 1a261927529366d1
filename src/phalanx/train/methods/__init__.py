"""What a Trainer's larger methods do, each in a file of its own."""
