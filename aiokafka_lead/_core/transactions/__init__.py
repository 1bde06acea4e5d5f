"""Transactions without I/O: phases, requests and reactions to errors (KIP-98, KIP-360, KIP-447, KIP-890)."""
