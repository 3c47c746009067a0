"""Clients of other projects' protocols, served by ROSA and by those projects' own servers."""
