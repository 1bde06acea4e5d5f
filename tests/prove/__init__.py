"""A proof that others can repeat: clients in processes of their own, a real Kafka, faults of all kinds, and a judge.

`python -m tests.prove --help` says how. docs/proof.md has the promises, and the findings of earlier runs.
"""
