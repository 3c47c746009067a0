"""Other projects' protocols in front of a gateway: their clients work unchanged, each as a robot (docs/frontends.md).

A frontend is a client of the gateway, as a robot is, and the only part of the server that uses the Python client.
"""
