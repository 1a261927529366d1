"""Using a trained model: its samples, its answers, its export."""
