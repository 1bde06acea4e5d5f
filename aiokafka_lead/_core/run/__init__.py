"""Policy of `Consumer.run`: the order of records, their progress, and their retries."""
