"""What files are made of: each looked at before memory is taken for it. Without torch."""
