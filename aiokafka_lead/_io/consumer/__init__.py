"""The tasks that fetch records, and hand them to the application."""
