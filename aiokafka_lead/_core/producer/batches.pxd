cimport cython
from libc.stdint cimport int16_t, int32_t, int64_t

from aiokafka_lead._core.leadership.patience cimport MoveClock, Patience
from aiokafka_lead._core.producer.buffer_memory cimport BufferMemory
from aiokafka_lead._core.producer.delivery cimport Delivery, new_delivery
from aiokafka_lead._core.producer.outcome cimport BatchOutcome
from aiokafka_lead._records.encoder cimport BatchBuilder
from aiokafka_lead._records.murmur2 cimport murmur2


@cython.final
cdef class Record:
    cdef readonly str topic
    cdef readonly bytes value
    cdef readonly bytes key
    cdef readonly int32_t partition
    cdef readonly int64_t timestamp_ms
    cdef readonly object headers


@cython.final
cdef class ProducerBatch:
    cdef readonly PartitionQueue queue
    cdef readonly BatchBuilder builder
    cdef readonly BatchOutcome outcome
    cdef readonly int64_t ordinal
    cdef readonly double created_at
    cdef public Py_ssize_t size_bytes
    cdef public int32_t shares
    cdef public bint sealed
    cdef public bint named
    cdef public bint in_flight
    cdef public double send_at
    cdef public int32_t attempts
    cdef readonly Patience patience
    cdef public bint in_doubt
    cdef public bint piece
    cdef public object last_error
    cdef public int64_t producer_id
    cdef public int16_t producer_epoch
    cdef public int64_t base_sequence
    cdef public bint stranded

    @cython.locals(queue=PartitionQueue)
    cpdef seal(self)


@cython.final
cdef class PartitionQueue:
    cdef readonly TopicBuffer topic
    cdef readonly int32_t partition
    cdef readonly list batches
    cdef public int32_t depth
    cdef public ProducerBatch open
    cdef public bint named
    cdef public int32_t in_flight
    cdef public int32_t in_flight_node
    cdef public int32_t leader_id
    cdef public int32_t leader_epoch
    cdef public int64_t generation
    cdef public int32_t ready_node
    cdef public double wake_at
    cdef public bint expiry_scheduled
    cdef public int64_t producer_id
    cdef public int16_t producer_epoch
    cdef public int64_t next_sequence
    cdef public int64_t acked_sequence
    cdef public bint gap
    cdef public bint unresolved
    cdef public int32_t proven_node
    cdef readonly MoveClock move_clock
    cdef public int64_t transaction

    cpdef bint renew_leader(self, object snapshot) except -1


@cython.final
cdef class TopicBuffer:
    cdef readonly str name
    cdef BufferMemory _memory
    cdef bint _ignore_keys
    cdef readonly object topic_id
    cdef readonly bint has_id
    cdef readonly int32_t count
    cdef readonly list queues
    cdef readonly dict pending
    cdef public Py_ssize_t batch_limit
    cdef public object available
    cdef public PartitionQueue sticky
    cdef public Py_ssize_t sticky_bytes
    cdef public double sticky_since
    cdef public Py_ssize_t deepest
    cdef public Py_ssize_t choices_until_survey

    cpdef int32_t partition_for_key(self, bytes key) except -1
    @cython.locals(queue=PartitionQueue)
    cpdef PartitionQueue select(self, int32_t partition, bytes key)

    @cython.locals(memory=BufferMemory, queue=PartitionQueue, batch=ProducerBatch, builder=BatchBuilder,
                   index=Py_ssize_t, added=Py_ssize_t)
    cpdef Delivery append(self, bytes value, bytes key, int32_t partition, int64_t timestamp_ms, object headers)

    @cython.locals(memory=BufferMemory, queue=PartitionQueue, batch=ProducerBatch, builder=BatchBuilder,
                   count=Py_ssize_t, added=Py_ssize_t)
    cpdef Py_ssize_t append_values(self, object values, Py_ssize_t start, int32_t partition, int64_t timestamp_ms) except -1


cdef class Flushes:
    cdef dict _pending
    cdef list _tickets

    cpdef started(self, int64_t ordinal, Py_ssize_t batches)
    cpdef finished(self, int64_t ordinal, int64_t latest)
