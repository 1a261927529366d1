"""`phalanx doctor`: whether what trainings need is there and works, one file a group of checks."""
