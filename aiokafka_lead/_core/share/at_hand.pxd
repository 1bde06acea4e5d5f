cimport cython

from aiokafka_lead._core.share.record cimport ShareRecord
from aiokafka_lead._cpython cimport clock


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
