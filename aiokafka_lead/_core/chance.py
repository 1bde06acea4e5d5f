"""Random numbers for all clients of the process, from a separate generator.

Many programs call ``random.seed`` with the same number in each process. With the generator of the module ``random``,
the backoffs of these processes would be equal, so that their retries coincide, and clients would change the program's
own sequence of numbers.
"""

from __future__ import annotations

import os
from random import Random

generator = Random()
"""Seeded by the operating system. Simulations seed it to be repeatable."""

random = generator.random
choice = generator.choice
shuffle = generator.shuffle

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=generator.seed)
