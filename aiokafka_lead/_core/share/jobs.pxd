cimport cython

from aiokafka_lead._core.share.delivered cimport AtHand
from aiokafka_lead._core.share.record cimport ShareRecord


cdef class JobSlot:
    cdef readonly ShareRecord record


@cython.final
cdef class Jobs:
    cdef AtHand _at_hand
    cdef Py_ssize_t _concurrency
    cdef object _backoff
    cdef object _decide
    cdef readonly object turns
    cdef readonly tuple aside
    cdef set _slots
    cdef list _kept_back
    cdef list _postponed
    cdef object _sequence

    @cython.locals(record=ShareRecord, first=ShareRecord)
    cpdef ShareRecord take(self, JobSlot slot)

    cpdef finished(self, JobSlot slot)
    cpdef given_up(self, JobSlot slot)

    @cython.locals(record=ShareRecord)
    cdef ShareRecord _let_go(self, JobSlot slot)
