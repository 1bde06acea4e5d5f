cimport cython
from libc.stdint cimport int64_t

from aiokafka_lead._core.run.order cimport Lanes
from aiokafka_lead._records.record cimport ConsumerRecord


@cython.final
cdef class PartitionWork:
    cdef readonly bint is_retry
    cdef readonly object state
    cdef readonly Lanes lanes
    cdef readonly object progress
    cdef public object committed
    cdef readonly dict attempts
    cdef readonly Py_ssize_t handled
    cdef readonly bint queued
    cdef readonly bint queued_aside
    cdef readonly bint closed
    cdef readonly bint shut
    cdef readonly bint cut
    cdef public Py_ssize_t resume_at


cdef class HandlerSlot:
    cdef readonly bint aside
    cdef readonly double began_at
    cdef readonly PartitionWork partition
    cdef readonly ConsumerRecord record


@cython.final
cdef class Work:
    cdef object _retry_topics
    cdef object _clock
    cdef object _shares
    cdef object _order
    cdef object _order_of
    cdef Py_ssize_t _limit
    cdef Py_ssize_t _least_half
    cdef Py_ssize_t _half
    cdef object _counted
    cdef Py_ssize_t _unit_bytes
    cdef object _positions
    cdef object _on_room
    cdef object _on_calm
    cdef int64_t _wanted_room
    cdef double _mean_weight
    cdef readonly int64_t in_hand
    cdef readonly object turns
    cdef readonly object aside
    cdef int _left
    cdef ConsumerRecord _fresh
    cdef PartitionWork _fresh_in
    cdef HandlerSlot _fresh_slot
    cdef dict _partitions

    cdef bint _has_share(self, PartitionWork partition) except -1
    cdef Py_ssize_t _half_share(self) except -1

    @cython.locals(partition=PartitionWork)
    cpdef add(self, object state, list records, object end)

    @cython.locals(partition=PartitionWork)
    cdef PartitionWork _partition_for(self, object state, ConsumerRecord first)

    @cython.locals(record=ConsumerRecord, each=ConsumerRecord)
    cdef list _weights(self, list records)

    @cython.locals(partition=PartitionWork, lanes=Lanes, record=ConsumerRecord)
    cpdef ConsumerRecord take(self, HandlerSlot slot)
    @cython.locals(partition=PartitionWork, lanes=Lanes, record=ConsumerRecord)
    cdef bint _take_aside(self, HandlerSlot slot) except -1
    cdef _end_turn(self, PartitionWork partition)

    @cython.locals(record=ConsumerRecord, partition=PartitionWork)
    cdef _settle(self)

    @cython.locals(record=ConsumerRecord, partition=PartitionWork, was_first=bint)
    cpdef finished(self, HandlerSlot slot)
    cdef _may_resume(self, PartitionWork partition)
    cpdef passed_on(self, HandlerSlot slot)
    @cython.locals(now=double, partition=PartitionWork, record=ConsumerRecord)
    cdef _stop_clock(self, HandlerSlot slot)

    @cython.locals(partition=PartitionWork)
    cpdef given_up(self, HandlerSlot slot)
    cdef _ended(self, HandlerSlot slot)
    cdef _came_back(self, PartitionWork partition)
    cpdef bint in_line(self, PartitionWork partition)
    cpdef again(self, PartitionWork partition, ConsumerRecord record)
    cdef _queue(self, PartitionWork partition)
    @cython.locals(lanes=Lanes)
    cdef bint _waits_aside(self, PartitionWork partition) except -1
    cdef _unqueue(self, PartitionWork partition)
    @cython.locals(weight=int64_t)
    cpdef wind_up(self, PartitionWork partition)
    cpdef close(self, PartitionWork partition)
    cpdef drop(self, PartitionWork partition)
