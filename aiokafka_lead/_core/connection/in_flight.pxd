cimport cython
from libc.stdint cimport int32_t

cdef int32_t _LAST_ID


@cython.final
cdef class InFlight:
    cdef readonly int32_t correlation_id
    cdef readonly object request_class
    cdef readonly int version
    cdef readonly double deadline
    cdef readonly object on_done
    cdef readonly bint raw


@cython.final
cdef class InFlightLedger:
    cdef public int32_t next_id
    cdef object _entries

    cpdef add(self, object request_class, int version, double deadline, object on_done, bint raw=*)
    cpdef skip(self)
    @cython.locals(oldest=InFlight)
    cpdef InFlight match(self, int32_t correlation_id)
    cpdef pop(self)
