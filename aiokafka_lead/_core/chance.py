"""Random numbers for all clients of the process.

Many programs call ``random.seed`` with the same number in each process. If the clients used the generator of the module
``random``, their backoffs would be equal in all these processes, so their retries would coincide. They would also
change the program's own sequence of random numbers.
"""

import os
from random import Random

generator = Random()
"""Seeded by the operating system. Simulations seed it to make their results repeatable."""

random = generator.random
choice = generator.choice
shuffle = generator.shuffle

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=generator.seed)
