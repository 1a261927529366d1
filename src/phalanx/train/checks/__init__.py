"""What is looked at before a training does harm: its arguments, its loss, the ranks it is on."""
