# Named tuples for compiled modules. tuples.py is the plain Python version.
#
# CPython allocates memory for each named tuple, and frees it through the base class, with provisions for deep nesting
# and finalizers, as for any class. A tuple of plain values needs none of this.

from cpython.object cimport PyTypeObject


cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_TUPLES

    #define aiokafka_lead_recycle(kind) ((void) (kind))

    static inline PyObject *aiokafka_lead_new_tuple(
        PyTypeObject *kind, PyObject *first, PyObject *second, PyObject *third, PyObject *fourth
    ) {
        PyObject *made = NULL;
        PyObject *arguments = Py_BuildValue("((OOOO))", first, second, third, fourth);
        if (arguments != NULL) {
            made = PyTuple_Type.tp_new(kind, arguments, NULL);
            Py_DECREF(arguments);
        }
        return made;
    }

    #else

    #define AIOKAFKA_LEAD_KEPT 1024

    static PyTypeObject *aiokafka_lead_recycled;
    static PyObject *aiokafka_lead_kept[AIOKAFKA_LEAD_KEPT];
    static Py_ssize_t aiokafka_lead_kept_count;

    /* Also called for subclasses, whose own parts were freed before. */
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

    /* Creates a tuple that the garbage collector does not track. */
    static inline PyObject *aiokafka_lead_new_tuple(
        PyTypeObject *kind, PyObject *first, PyObject *second, PyObject *third, PyObject *fourth
    ) {
        PyObject *made = kind == aiokafka_lead_recycled && aiokafka_lead_kept_count > 0
            ? PyObject_Init(aiokafka_lead_kept[--aiokafka_lead_kept_count], kind)
            : (PyObject *) PyObject_GC_NewVar(PyTupleObject, kind, 4);
        if (made == NULL)
            return NULL;
    #if PY_VERSION_HEX >= 0x030E0000
        ((PyTupleObject *) made)->ob_hash = -1;  /* not known yet */
    #endif
        PyTuple_SET_ITEM(made, 0, Py_NewRef(first));
        PyTuple_SET_ITEM(made, 1, Py_NewRef(second));
        PyTuple_SET_ITEM(made, 2, Py_NewRef(third));
        PyTuple_SET_ITEM(made, 3, Py_NewRef(fourth));
        return made;
    }

    #endif
    """
    void aiokafka_lead_recycle(PyTypeObject *kind)
    object aiokafka_lead_new_tuple(PyTypeObject *kind, object first, object second, object third, object fourth)


cdef inline int recycle(type kind) except -1:
    aiokafka_lead_recycle(<PyTypeObject *> kind)
    return 0


cdef inline object of_four(type kind, object first, object second, object third, object fourth):
    return aiokafka_lead_new_tuple(<PyTypeObject *> kind, first, second, third, fourth)
