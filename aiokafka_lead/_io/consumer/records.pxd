cimport cython

from aiokafka_lead._core.unsampled cimport Unsampled
from aiokafka_lead._cpython cimport awaiting


@cython.final
cdef class Records:
    cdef object _more
    cdef object _at_hand
    cdef object _next
    cdef object _look
    cdef Unsampled _unsampled

    cpdef bint at_hand(self) except -1


@cython.locals(records=Records)
cdef int _is_ready(object one) except -1

@cython.locals(records=Records, unsampled=Unsampled)
cdef object _take(object one)
