"""Transactions without I/O (KIP-98, KIP-360, KIP-447, KIP-890): phases, reactions to errors, next requests."""
