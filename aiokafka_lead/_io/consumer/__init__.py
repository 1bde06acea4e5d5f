"""Tasks that fetch records, and the delivery of records to the application."""
