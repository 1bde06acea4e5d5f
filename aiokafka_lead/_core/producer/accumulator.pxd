cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._core.producer.batches cimport Flushes, PartitionQueue, ProducerBatch, Record, TopicBuffer
from aiokafka_lead._core.producer.buffer_memory cimport BufferMemory
from aiokafka_lead._core.producer.counters cimport ProducerCounters
from aiokafka_lead._core.producer.idempotence cimport Sequencing
from aiokafka_lead._core.producer.partitioner cimport NodeAvailability, StickyChooser
from aiokafka_lead._core.producer.delivery cimport Delivery, new_delivery
from aiokafka_lead._core.producer.outcome cimport BatchOutcome
from aiokafka_lead._core.producer.schedule cimport Schedule
from aiokafka_lead._core.producer.transactional cimport TransactionalSequencing
from aiokafka_lead._records.encoder cimport BatchBuilder, estimated_size

cdef double GROWS_FOR_S
cdef Py_ssize_t CROWD_BYTES
cdef Py_ssize_t CROWD_BATCHES
cdef Py_ssize_t REQUEST_BATCHES
cdef Py_ssize_t _HEADER_SIZE


cdef class Accumulator:
    cdef readonly ProducerCounters counters
    cdef readonly object snapshot
    cdef readonly dict topics
    cdef readonly TransactionalSequencing transactional
    cdef readonly object identity
    cdef readonly Sequencing sequencing
    cdef readonly Py_ssize_t batch_size
    cdef readonly bint compresses_slowly
    cdef Py_ssize_t _batch_limit
    cdef readonly BufferMemory memory
    cdef readonly Schedule schedule
    cdef readonly NodeAvailability nodes
    cdef readonly object retry
    cdef readonly object park
    cdef public Py_ssize_t unseen_bytes
    cdef public Py_ssize_t opened
    cdef public Py_ssize_t turn_bytes
    cdef Py_ssize_t _bytes_per_turn
    cdef readonly Py_ssize_t pending
    cdef StickyChooser _chooser
    cdef bint _ignore_keys
    cdef BatchBuilder _blank
    cdef Py_ssize_t _max_request_size
    cdef Py_ssize_t _largest
    cdef object _partitioner
    cdef object _cluster_id
    cdef int64_t _ordinal
    cdef Flushes _flushes

    @cython.locals(sticky=PartitionQueue)
    cdef PartitionQueue _queue_for(self, TopicBuffer topic, bytes key, int32_t partition, double now)
    @cython.locals(topic=TopicBuffer, batch=ProducerBatch)
    cdef ProducerBatch _open(self, PartitionQueue queue, BatchBuilder builder, int64_t ordinal, double now)
    @cython.locals(topic=TopicBuffer, queue=PartitionQueue, room=Py_ssize_t)
    cdef _fill(self, ProducerBatch batch, Py_ssize_t size, double now)
    @cython.locals(queue=PartitionQueue, batch=ProducerBatch, size=Py_ssize_t, limit=Py_ssize_t)
    cpdef list drain(self, int node_id, double now, bint busy=*)
    @cython.locals(queue=PartitionQueue, counters=ProducerCounters)
    cdef _send(self, ProducerBatch batch, int node_id, double now)
    cpdef bint crowded(self) except -1
    cpdef Py_ssize_t record_size(self, Record record) except -1

    @cython.locals(size=Py_ssize_t)
    cpdef Delivery append(self, TopicBuffer topic, Record record, double now)
    cpdef Delivery append_granted(self, TopicBuffer topic, Record record, int64_t ordinal, double now)

    @cython.locals(partition=int32_t, queue=PartitionQueue, batch=ProducerBatch, builder=BatchBuilder,
                   index=Py_ssize_t, added=Py_ssize_t)
    cdef Delivery _put(self, TopicBuffer topic, Record record, Py_ssize_t size, int64_t ordinal, double now)

    @cython.locals(at=Py_ssize_t, count=Py_ssize_t, queue=PartitionQueue, batch=ProducerBatch, first=Py_ssize_t,
                   added=Py_ssize_t, delivery=Delivery)
    cpdef Py_ssize_t append_values(
        self, TopicBuffer topic, object values, Py_ssize_t start, int32_t partition, int64_t timestamp_ms,
        object into, double now
    ) except -1

    cpdef BatchBuilder new_builder(self, Py_ssize_t batch_size)
    @cython.locals(size=Py_ssize_t)
    cpdef BatchOutcome append_built(self, TopicBuffer topic, int32_t partition, BatchBuilder builder, double now)
    @cython.locals(queue=PartitionQueue, batch=ProducerBatch)
    cpdef BatchOutcome append_built_granted(
        self, TopicBuffer topic, int32_t partition, BatchBuilder builder, double now
    )

    cpdef int64_t next_ordinal(self)
    cpdef started(self, int64_t ordinal, Py_ssize_t batches=*)
    cpdef finish(self, int64_t ordinal)
