cimport cython

from aiokafka_lead._cpython cimport awaiting


@cython.final
cdef class Records:
    cdef object _more
    cdef object _at_hand
    cdef object _next


@cython.locals(records=Records)
cdef int _is_ready(object one) except -1

@cython.locals(records=Records)
cdef object _take(object one)
