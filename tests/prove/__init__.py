"""A repeatable proof: clients in separate processes, a real Kafka, faults of all kinds, and a judge.

`python -m tests.prove --help` shows the usage. docs/proof.md has the promises, and the findings of earlier runs.
"""
