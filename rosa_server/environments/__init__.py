"""Python environments of models that need other packages than the server: what goes in, and the worker's wheel."""
