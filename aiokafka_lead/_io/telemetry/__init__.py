"""The task that pushes metrics to brokers that subscribe to them (KIP-714)."""
