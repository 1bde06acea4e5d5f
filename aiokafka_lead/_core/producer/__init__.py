"""The path of a record to its acknowledgement: batches, their order, their retries."""
