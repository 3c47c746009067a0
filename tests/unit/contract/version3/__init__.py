"""The codec of version 3, as it was: what version 4 is compared with before it goes."""
