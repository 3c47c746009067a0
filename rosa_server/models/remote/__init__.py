"""Policy servers that the user already runs, as backends; and how such servers write arrays."""
