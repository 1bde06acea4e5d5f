cimport cython

from aiokafka_lead._core.share.delivered cimport AtHand, Delivered
from aiokafka_lead._core.share.record cimport ShareRecord
from aiokafka_lead._cpython cimport awaiting


@cython.final
cdef class ShareRecords:
    cdef AtHand _at_hand
    cdef Delivered _delivered
    cdef object _come_back
    cdef object _more


@cython.locals(records=ShareRecords)
cdef int _is_ready(object one) except -1

@cython.locals(records=ShareRecords, record=ShareRecord)
cdef object _take(object one)
