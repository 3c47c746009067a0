"""The request path's decisions. Pure: events and a time go in, what to send comes out."""
