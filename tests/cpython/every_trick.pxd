cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafka_lead._cpython cimport awaiting, calling, clock, collector, naming, raw, references, slots, tuples


@cython.final
cdef class Sample:
    cdef readonly int64_t number
    cdef readonly object key
    cdef readonly object value
    cdef readonly object note


cpdef Sample like(Sample sample)

cpdef tuple pair(list first, list second)


@cython.final
cdef class Result:
    cdef public bint done
    cdef readonly object value


@cython.locals(result=Result)
cdef int _is_done(object one) except -1

@cython.locals(result=Result)
cdef object _take(object one)


@cython.final
cdef class Method:
    cdef readonly int calls
    cdef size_t _slot


@cython.final
cdef class Call:
    cdef readonly object first
    cdef readonly object second


@cython.locals(call=Call)
cdef object _first_step(object one)

@cython.locals(call=Call)
cdef object _rest(object one)


@cython.final
cdef class Owner:
    cdef public object kept


@cython.locals(target="unsigned char *", source="const unsigned char *", at=Py_ssize_t, size=Py_ssize_t)
cpdef bytearray written(bytes content, str text)

@cython.locals(buffer="const unsigned char *")
cpdef tuple read(object data)

@cython.locals(small="int32_t *", large="int64_t *", at=Py_ssize_t)
cpdef tuple arrays(Py_ssize_t count)
