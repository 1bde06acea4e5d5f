cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._core.latencies cimport Latencies


@cython.final
cdef class TopicCounters:
    cdef readonly int64_t batches_acked
    cdef readonly int64_t records_acked
    cdef readonly int64_t records_failed


@cython.final
cdef class ProducerCounters:
    cdef public int64_t batches_acked
    cdef public int64_t batches_failed
    cdef public int64_t batches_sent
    cdef public int64_t batches_split
    cdef public int64_t buffer_waits
    cdef public int64_t bytes_sent
    cdef public int64_t bytes_sent_in_rack
    cdef public int64_t catch_up_waits
    cdef public int64_t free_retries
    cdef public int64_t records_acked
    cdef public int64_t records_expired
    cdef public int64_t records_failed
    cdef public int64_t records_sent
    cdef public int64_t requests
    cdef public int64_t retries
    cdef readonly object moves
    cdef readonly dict topics
    cdef readonly Latencies send_latency
    cdef readonly Latencies queue_latency
    cdef readonly Latencies throttle_time
    cdef readonly object request_latency
    cdef readonly double acked_at
    cdef public object on_settled

    @cython.locals(latencies=Latencies)
    cpdef answered(self, int node_id, double seconds, double throttle_time_ms)

    cpdef sending(self, int attempts, Py_ssize_t records, double waited_s)

    @cython.locals(counters=TopicCounters)
    cpdef settled(self, str topic, Py_ssize_t records, double created_at, double now, object error)
