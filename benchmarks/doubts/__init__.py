"""Faults of ``doubt``, grouped by the part that permanently gives wrong answers, and the tested clients."""
