cimport cython
from libc.stdint cimport int32_t

from aiokafka_lead._core.trust cimport Trust


@cython.final
cdef class Patience(Trust):
    cdef readonly double retry_at
    cdef readonly int32_t epoch
    cdef readonly int32_t free_retries
    cdef bint _confirmed
    cdef int32_t _catch_ups
    cdef double _sent_at

    cpdef double waits_until(self, double now, int32_t leader_epoch) except -1
    cpdef bint skipped(self, double sent_at, int32_t leader_epoch) except -1
    cpdef bint sent(self, double now, int32_t leader_epoch) except -1
    cdef int _note(self, int32_t leader_epoch) except -1

    @cython.locals(catch_up=bint)
    cpdef bint failed(self, double now, int32_t leader_epoch, object policy, bint by_leader, bint certain) except -1
    cpdef failed_for_another(self, double now)


@cython.final
cdef class MoveClock:
    cdef double _since
    cdef int32_t _refused_by

    cpdef refused(self, int32_t node_id, double now)
    cpdef served(self, int32_t node_id, double at, object counters)
