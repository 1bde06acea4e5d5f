"""Faults for the benchmark ``doubt``, grouped by the server that permanently gives wrong answers, and the clients."""
