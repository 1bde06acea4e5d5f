cimport cython

from aiokafka_lead._core.producer.append cimport PartitionQueue, ProducerBatch, TopicBuffer
from aiokafka_lead._records.encoder cimport BatchBuilder


@cython.locals(batch=ProducerBatch)
cpdef int produce_version(object versions, object batches, str compression) except -1

@cython.locals(batch=ProducerBatch, queue=PartitionQueue, topic=TopicBuffer, builder=BatchBuilder)
cpdef tuple produce_request(object batches, int version, int acks, int timeout_ms)

@cython.locals(batch=ProducerBatch, queue=PartitionQueue, by_id=bint, found=dict)
cpdef list read_answers(object sent, object response)
