"""Texts as samples: windows of characters or bytes, and for each of these the one that follows."""
