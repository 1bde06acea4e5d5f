cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._records.record cimport ConsumerRecord


cdef class Lanes:
    cdef readonly bint parallel
    cdef readonly object line
    cdef readonly dict heavy
    cdef readonly object ready
    cdef readonly object aside
    cdef readonly dict pending

    @cython.locals(record=ConsumerRecord)
    cpdef add(self, list records, weights)
    cpdef bint available(self)
    cpdef ConsumerRecord next(self)
    cpdef hold(self, ConsumerRecord record)
    @cython.locals(record=ConsumerRecord)
    cpdef ConsumerRecord next_held(self)
    cpdef int64_t passed(self, ConsumerRecord record) except -1
    cpdef int64_t finished(self, ConsumerRecord record) except -1
    cpdef spent(self, ConsumerRecord record, double seconds, double now)
    @cython.locals(offset=object)
    cdef _remember(self, ConsumerRecord record)
    cpdef Py_ssize_t count(self)
    @cython.locals(record=ConsumerRecord)
    cpdef int64_t first(self) except -2
    cpdef tuple cut(self, int64_t end)
    cpdef bar(self, int64_t first)
    cpdef int64_t give_up(self) except -1


cdef class KeyLanes(Lanes):
    cdef int64_t _begun
    cdef dict _waiting
    cdef dict _spent
    cdef dict _before
    cdef double _until
    cdef set _slow

    @cython.locals(record=ConsumerRecord, waiting=dict)
    cpdef ConsumerRecord next(self)
    cpdef hold(self, ConsumerRecord record)
    cpdef int64_t finished(self, ConsumerRecord record) except -1
    @cython.locals(spent=double)
    cpdef spent(self, ConsumerRecord record, double seconds, double now)
    cpdef tuple cut(self, int64_t end)
    cpdef bar(self, int64_t first)
    cpdef int64_t give_up(self) except -1


cdef class OneLane(Lanes):
    cdef bint _busy

    cpdef bint available(self)
    cpdef ConsumerRecord next(self)
    cpdef hold(self, ConsumerRecord record)
    cpdef int64_t finished(self, ConsumerRecord record) except -1
