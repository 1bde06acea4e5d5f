cimport cython

from aiokafka_lead._cpython cimport naming
from aiokafka_lead._core.share.acquired cimport Acquired
from aiokafka_lead._core.share.delivered cimport Delivered
from aiokafka_lead._core.share.record cimport ShareRecord

cdef int _RENEW


@cython.final
cdef class Acknowledgement:
    cdef Acknowledging _acknowledging
    cdef ShareRecord _record


@cython.final
cdef class Acknowledging:
    cdef object _client
    cdef object _planner
    cdef Delivered _delivered
    cdef object _planning
    cdef object _news
    cdef object _own

    @cython.locals(number=int, acquired=Acquired, one=ShareRecord)
    cpdef Acknowledgement acknowledge(self, object record, object kind)

    cdef _decide_checked(self, ShareRecord record, int kind)

    @cython.locals(acquired=Acquired)
    cpdef bint decide(self, ShareRecord record, int kind) except -1
