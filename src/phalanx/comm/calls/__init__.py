"""A function that is called on ranks: how it comes to them, and what comes back."""
