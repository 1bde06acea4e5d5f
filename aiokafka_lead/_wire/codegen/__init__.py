"""Generating the message modules.

Kafka's jar is converted to ``protocol.txt``, in the notation of `aiokafka_lead._wire.message`, and that file to
``messages/*.py``.
"""
