# Direct access to memory for compiled modules. raw.py defines what each function does.

from cpython.array cimport array, clone
from libc.stdint cimport int16_t, int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy


# The memory does not move while its owner is referenced and keeps its size.
cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_RAW

    #define AIOKAFKA_LEAD_BY_PROTOCOL 1

    static inline void *aiokafka_lead_memory(PyObject *owner) {
        Py_buffer view;
        if (PyObject_GetBuffer(owner, &view, PyBUF_SIMPLE) < 0)
            return NULL;
        PyBuffer_Release(&view);
        return view.buf;
    }

    #define aiokafka_lead_of_bytes(owner) aiokafka_lead_memory(owner)
    #define aiokafka_lead_of_bytearray(owner) aiokafka_lead_memory(owner)
    #define aiokafka_lead_of_memoryview(owner) aiokafka_lead_memory(owner)

    #else

    #define AIOKAFKA_LEAD_BY_PROTOCOL 0
    #define aiokafka_lead_memory(owner) NULL
    #define aiokafka_lead_of_bytes(owner) ((void *) PyBytes_AS_STRING(owner))
    #define aiokafka_lead_of_bytearray(owner) ((void *) PyByteArray_AS_STRING(owner))
    #define aiokafka_lead_of_memoryview(owner) (PyMemoryView_GET_BUFFER(owner)->buf)

    #endif
    """
    bint BY_PROTOCOL "AIOKAFKA_LEAD_BY_PROTOCOL"
    void *memory "aiokafka_lead_memory" (object owner)
    void *of_bytes "aiokafka_lead_of_bytes" (object owner)
    void *of_bytearray "aiokafka_lead_of_bytearray" (object owner)
    void *of_memoryview "aiokafka_lead_of_memoryview" (object owner)


cdef extern from "Python.h":
    int PyByteArray_Resize(object buffer, Py_ssize_t size) except -1
    bytearray PyByteArray_FromStringAndSize(const char *content, Py_ssize_t size)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL


cdef inline const unsigned char *readable(object data) except NULL:
    if type(data) is bytes:
        return <const unsigned char *> of_bytes(data)
    # Raises if the memoryview was released.
    if type(data) is not memoryview or not data.c_contiguous or data.ndim != 1 or data.itemsize != 1:
        raise TypeError("the codec reads bytes and flat memoryviews of bytes only")
    return <const unsigned char *> of_memoryview(data)


cdef inline void copy(unsigned char *target, Py_ssize_t at, bytes source, Py_ssize_t length) noexcept:
    memcpy(target + at, of_bytes(source), length)


cdef inline unsigned char *writable(bytearray buffer):
    return <unsigned char *> of_bytearray(buffer)


cdef inline void copy_part(
    unsigned char *target, Py_ssize_t at, const unsigned char *source, Py_ssize_t source_at, Py_ssize_t length
) noexcept:
    memcpy(target + at, source + source_at, length)


cdef inline bytearray new_buffer(Py_ssize_t size):
    return PyByteArray_FromStringAndSize(NULL, size)


cdef inline int resize(bytearray buffer, Py_ssize_t size) except -1:
    return PyByteArray_Resize(buffer, size)


cdef inline Py_ssize_t utf8_size(str text) except -1:
    cdef Py_ssize_t size = 0
    PyUnicode_AsUTF8AndSize(text, &size)
    return size


cdef inline int copy_utf8(unsigned char *target, Py_ssize_t at, str text, Py_ssize_t length) except -1:
    cdef Py_ssize_t size = 0
    cdef const char *source = PyUnicode_AsUTF8AndSize(text, &size)
    memcpy(target + at, source, length)
    return 0


cdef inline void put_int16(unsigned char *buffer, Py_ssize_t at, int16_t number) noexcept:
    buffer[at] = <unsigned char> ((<uint32_t> number) >> 8)
    buffer[at + 1] = <unsigned char> number


cdef inline void put_int32(unsigned char *buffer, Py_ssize_t at, int32_t number) noexcept:
    cdef uint32_t bits = <uint32_t> number
    buffer[at] = <unsigned char> (bits >> 24)
    buffer[at + 1] = <unsigned char> (bits >> 16)
    buffer[at + 2] = <unsigned char> (bits >> 8)
    buffer[at + 3] = <unsigned char> bits


cdef inline int append_int16(bytearray buffer, int16_t number) except -1:
    cdef Py_ssize_t size = len(buffer)
    PyByteArray_Resize(buffer, size + 2)
    put_int16(<unsigned char *> of_bytearray(buffer), size, number)
    return 0


cdef inline int append_int32(bytearray buffer, int32_t number) except -1:
    cdef Py_ssize_t size = len(buffer)
    PyByteArray_Resize(buffer, size + 4)
    put_int32(<unsigned char *> of_bytearray(buffer), size, number)
    return 0


cdef inline int append_uvarint(bytearray buffer, uint32_t number) except -1:
    cdef unsigned char digits[5]
    cdef Py_ssize_t size = len(buffer)
    cdef Py_ssize_t count = 0
    while number > 127:
        digits[count] = <unsigned char> (number & 127 | 128)
        number >>= 7
        count += 1
    digits[count] = <unsigned char> number
    PyByteArray_Resize(buffer, size + count + 1)
    memcpy(<unsigned char *> of_bytearray(buffer) + size, digits, count + 1)
    return 0


cdef inline void put_uint32(unsigned char *buffer, Py_ssize_t at, uint32_t number) noexcept:
    put_int32(buffer, at, <int32_t> number)


cdef inline void put_int64(unsigned char *buffer, Py_ssize_t at, int64_t number) noexcept:
    put_int32(buffer, at, <int32_t> ((<uint64_t> number) >> 32))
    put_int32(buffer, at + 4, <int32_t> (<uint64_t> number))


cdef inline int16_t int16_at(const unsigned char *buffer, Py_ssize_t at) noexcept:
    return <int16_t> ((<uint32_t> buffer[at]) << 8 | buffer[at + 1])


cdef inline int32_t int32_at(const unsigned char *buffer, Py_ssize_t at) noexcept:
    return <int32_t> (
        (<uint32_t> buffer[at]) << 24 | (<uint32_t> buffer[at + 1]) << 16
        | (<uint32_t> buffer[at + 2]) << 8 | buffer[at + 3]
    )


cdef inline int64_t int64_at(const unsigned char *buffer, Py_ssize_t at) noexcept:
    return <int64_t> (
        (<uint64_t> <uint32_t> int32_at(buffer, at)) << 32 | <uint64_t> <uint32_t> int32_at(buffer, at + 4)
    )


cdef inline int32_t *int32s(array items):
    return <int32_t *> (memory(items) if BY_PROTOCOL else items.data.as_voidptr)


cdef inline int64_t *int64s(array items):
    return <int64_t *> (memory(items) if BY_PROTOCOL else items.data.as_voidptr)


cdef inline array new_int32s(Py_ssize_t count):
    return array("i", bytes(4 * count)) if BY_PROTOCOL else clone(<array> array("i"), count, False)


cdef inline array new_int64s(Py_ssize_t count):
    return array("q", bytes(8 * count)) if BY_PROTOCOL else clone(<array> array("q"), count, False)
