cimport cython
from libc.stdint cimport int64_t


@cython.final
cdef class ProducerCounters:
    cdef public int64_t batches_acked
    cdef public int64_t batches_failed
    cdef public int64_t batches_sent
    cdef public int64_t batches_split
    cdef public int64_t buffer_waits
    cdef public int64_t bytes_sent
    cdef public int64_t catch_up_waits
    cdef public int64_t free_retries
    cdef public int64_t records_acked
    cdef public int64_t records_expired
    cdef public int64_t records_failed
    cdef public int64_t records_sent
    cdef public int64_t requests
    cdef public int64_t retries
    cdef readonly object moves
