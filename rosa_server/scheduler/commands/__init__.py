"""`rosa plan` and `rosa profile`: arguments, tables and pictures."""
