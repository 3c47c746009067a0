"""The commands of `rosa`, one per file."""
