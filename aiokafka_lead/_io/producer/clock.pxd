# Clocks and the thread's identity for the compiled modules; clock.py has the same for plain Python.

from cpython.pythread cimport PyThread_get_thread_ident
from cpython.time cimport monotonic
from libc.stdint cimport int64_t


cdef extern from "<time.h>":
    """
    static inline int64_t aiokafka_lead_wall_ms(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    int64_t aiokafka_lead_wall_ms() noexcept


cdef inline double monotonic_s() noexcept:
    return monotonic()


cdef inline int64_t wall_ms() noexcept:
    return aiokafka_lead_wall_ms()


cdef inline unsigned long thread_id() noexcept:
    return <unsigned long> PyThread_get_thread_ident()
