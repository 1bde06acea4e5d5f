"""From a record to its acknowledgement: batches, their order, their retries."""
