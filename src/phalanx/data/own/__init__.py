"""Samples as users have them: torch's data sets, streams and arrays, in any nest of tensors."""
