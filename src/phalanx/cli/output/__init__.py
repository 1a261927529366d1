"""What commands print: consoles, tables, progress. Nothing else imports rich."""
