"""Tables of text: cells, headers, columns, and how they become numbers."""
