cimport cython

from aiokafka_lead._core.share.acquired cimport Acquired
from aiokafka_lead._core.share.record cimport ShareRecord
from aiokafka_lead._cpython cimport clock

cdef int _ACCEPT


@cython.final
cdef class AtHand:
    cdef list _records
    cdef Py_ssize_t _at
    cdef public double quick_until

    @cython.locals(at=Py_ssize_t, end=Py_ssize_t)
    cpdef list take(self, Py_ssize_t limit)

    @cython.locals(record=ShareRecord)
    cpdef bint is_quick(self) except -1

    @cython.locals(record=ShareRecord)
    cpdef ShareRecord take_one(self)


@cython.final
cdef class Delivered:
    cdef readonly bint implicit
    cdef list _handed
    cdef ShareRecord _given
    cdef dict _outcomes

    @cython.locals(given=ShareRecord)
    cpdef bint go_on(self, ShareRecord record) except -1
