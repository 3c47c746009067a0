"""What a gateway is made of: sockets, metrics, keys, limits and files.

Its loop is `serving/gateway.py`; its decisions are in `core/`.
"""
