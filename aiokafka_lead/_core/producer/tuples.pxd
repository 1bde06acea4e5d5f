# Named tuples for the compiled modules; tuples.py has the same for plain Python.
#
# CPython makes and drops one as it does for any class: allocated anew each time, and let go of by way of its base, with
# provisions for deep nesting and finalizers. Of plain values none of that is needed.

from cpython.object cimport PyTypeObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_SET_ITEM


cdef extern from *:
    """
    #define AIOKAFKA_LEAD_KEPT 1024

    static PyTypeObject *aiokafka_lead_recycled;
    static PyObject *aiokafka_lead_kept[AIOKAFKA_LEAD_KEPT];
    static Py_ssize_t aiokafka_lead_kept_count;

    /* Of subclasses as well, which come here for what is left of them. */
    static inline void aiokafka_lead_drop_tuple(PyObject *self) {
        PyTypeObject *kind = Py_TYPE(self);
        Py_ssize_t i;
        PyObject_GC_UnTrack(self);
        for (i = Py_SIZE(self); --i >= 0;) {
            Py_XDECREF(PyTuple_GET_ITEM(self, i));
        }
    #ifndef Py_GIL_DISABLED
        if (kind == aiokafka_lead_recycled && Py_SIZE(self) == 4 && aiokafka_lead_kept_count < AIOKAFKA_LEAD_KEPT)
            aiokafka_lead_kept[aiokafka_lead_kept_count++] = self;
        else
    #endif
            kind->tp_free(self);
        Py_DECREF(kind);
    }

    static inline void aiokafka_lead_recycle(PyTypeObject *kind) {
        aiokafka_lead_recycled = kind;
        kind->tp_dealloc = aiokafka_lead_drop_tuple;
    }

    /* Four places, to be filled. Unknown to the garbage collector. */
    static inline PyObject *aiokafka_lead_new_tuple(PyTypeObject *kind) {
        PyObject *made = kind == aiokafka_lead_recycled && aiokafka_lead_kept_count > 0
            ? PyObject_Init(aiokafka_lead_kept[--aiokafka_lead_kept_count], kind)
            : (PyObject *) PyObject_GC_NewVar(PyTupleObject, kind, 4);
    #if PY_VERSION_HEX >= 0x030E0000
        if (made != NULL)
            ((PyTupleObject *) made)->ob_hash = -1;  /* not known yet */
    #endif
        return made;
    }
    """
    void aiokafka_lead_recycle(PyTypeObject *kind)
    object aiokafka_lead_new_tuple(type kind)


cdef inline int recycle(type kind) except -1:
    aiokafka_lead_recycle(<PyTypeObject *> kind)
    return 0


cdef inline object of_four(type kind, object first, object second, object third, object fourth):
    made = aiokafka_lead_new_tuple(kind)
    Py_INCREF(first)
    PyTuple_SET_ITEM(made, 0, first)
    Py_INCREF(second)
    PyTuple_SET_ITEM(made, 1, second)
    Py_INCREF(third)
    PyTuple_SET_ITEM(made, 2, third)
    Py_INCREF(fourth)
    PyTuple_SET_ITEM(made, 3, fourth)
    return made
