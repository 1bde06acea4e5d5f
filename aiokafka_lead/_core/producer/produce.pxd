cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._core.producer.batches cimport PartitionQueue, ProducerBatch, TopicBuffer
from aiokafka_lead._core.producer.transactional cimport TransactionalSequencing
from aiokafka_lead._cpython cimport raw

cdef Py_ssize_t _COPY_BELOW
cdef Py_ssize_t _PARTITION_BYTES

@cython.locals(
    buffer="const unsigned char *", at=Py_ssize_t, topics=Py_ssize_t, size=Py_ssize_t, count=Py_ssize_t, name=bytes,
    acknowledged=dict, found=dict,
)
cpdef object read_plain(object frame, Py_ssize_t position, Py_ssize_t end, bint by_id)

@cython.locals(size=Py_ssize_t)
cdef bytearray _write_partition(int32_t index, object records, list chunks, bytearray out)

@cython.locals(batch=ProducerBatch)
cpdef int produce_version(
    object versions, object batches, str compression, TransactionalSequencing transactional=*
) except -1

@cython.locals(batch=ProducerBatch, size=Py_ssize_t)
cpdef bint takes_long_to_build(object batches) except -1

cdef object _built(ProducerBatch batch, bint transactional)

@cython.locals(batch=ProducerBatch, queue=PartitionQueue, topic=TopicBuffer, parts=dict, entry=tuple, size=Py_ssize_t,
               transactional=bint)
cpdef tuple produce_request(
    object batches, int version, int acks, int timeout_ms, object transactional_id=*
)

@cython.locals(batch=ProducerBatch, queue=PartitionQueue, known=dict, found=tuple, offsets=list)
cpdef list read_offsets(object sent, object response)

@cython.locals(batch=ProducerBatch, queue=PartitionQueue, by_id=bint, found=dict)
cpdef list read_answers(object sent, object response)
