"""The path from a position to the application: fetch plans, answers, prefetched data."""
