cimport cython
from libc.stdint cimport int32_t, int64_t


@cython.final
cdef class Position:
    cdef readonly int64_t offset
    cdef readonly int32_t leader_epoch

    cdef bint _is(self, Position other)


@cython.final
cdef class PartitionFetch:
    cdef readonly object topic_id
    cdef readonly int64_t fetch_offset
    cdef readonly int32_t last_fetched_epoch
    cdef readonly int32_t leader_epoch

    cdef bint _is(self, PartitionFetch other)
