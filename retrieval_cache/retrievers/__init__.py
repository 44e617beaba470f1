"""Retrievers: each in a module of its own, all behind the protocol in `protocol`."""
