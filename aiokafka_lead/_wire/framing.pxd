cimport cython
from libc.stdint cimport int32_t

from aiokafka_lead._wire.codec cimport decode_from, encode_into

cpdef list encode_request(object request, int version, int32_t correlation_id, object client_id)

@cython.locals(chunks=list, last=bytearray, size=Py_ssize_t)
cpdef list finish_frame(object message, int version, bytearray head)

cpdef int32_t peek_correlation_id(object frame) except? -1
cpdef object decode_answer(object response, int version, object view)
cdef object _decode_refusal(object response, int asked, object view)
cpdef Py_ssize_t skip_header_tags(object view, Py_ssize_t position) except -1
