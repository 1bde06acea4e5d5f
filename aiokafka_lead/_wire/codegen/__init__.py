"""Generates the message modules: Kafka's jar -> ``protocol.txt`` (facts in our notation) -> ``messages/*.py``."""
