"""Commands for a server that runs on this machine."""
