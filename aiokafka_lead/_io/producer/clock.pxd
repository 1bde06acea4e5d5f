# Clocks and the thread's identity for the compiled modules; clock.py has the same for plain Python.

from cpython.pythread cimport PyThread_get_thread_ident
from cpython.time cimport monotonic, time


cdef inline double monotonic_s() noexcept:
    return monotonic()


cdef inline double wall_s() noexcept:
    return time()


cdef inline unsigned long thread_id() noexcept:
    return <unsigned long> PyThread_get_thread_ident()
