"""`phalanx verify`: one training done in several ways, which must all come to the same."""
