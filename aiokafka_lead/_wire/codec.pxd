cdef dict _encoders
cdef dict _decoders
cdef Py_ssize_t _GC_PAUSE_BYTES

cpdef bytearray encode_into(object message, int version, list chunks, bytearray out)
cpdef tuple decode_from(object message, int version, object view, Py_ssize_t position)
cpdef object decoder_of(object message, int version)
cpdef object encoder_of(object message, int version)
cdef object _plain(object view)
