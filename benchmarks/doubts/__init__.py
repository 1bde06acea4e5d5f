"""The faults of ``doubt``, grouped by the lasting wrong answer, and the tested clients."""
