"""Makes the message modules: Kafka's jar -> ``protocol.txt`` (facts in a notation of our own) -> ``messages/*.py``."""
