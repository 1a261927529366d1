"""What tasks are measured by: errors of numbers, right and wrong labels, their order, baselines."""
