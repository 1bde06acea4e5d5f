# Calls and runs objects of compiled modules. calling.py is the plain Python version.
#
# A type with `__call__` packs the arguments of each call into a tuple. A method takes them as the interpreter passes
# them (PEP 590), so the call of an object is redirected to a method. The `send` of a coroutine returns its result by
# raising StopIteration, and am_send returns it directly (PyIter_Send of Python 3.10).

from cpython.object cimport PyTypeObject


cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_CALLING

    #define aiokafka_lead_call_at(self, slot, name) 0
    #define aiokafka_lead_run_by(kind, first_step, rest) ((void) (first_step), (void) (rest))

    #else

    typedef struct {
        _PyCFunctionFastWithKeywords call;
        PyObject *(*first_step)(PyObject *);
        PyObject *(*rest)(PyObject *);
    } aiokafka_lead_calling_of_type;

    static aiokafka_lead_calling_of_type aiokafka_lead_calling;

    static inline PyObject *aiokafka_lead_call(PyObject *self, PyObject *const *args, size_t count, PyObject *names) {
        return aiokafka_lead_calling.call(self, args, PyVectorcall_NARGS(count), names);
    }

    static inline int aiokafka_lead_call_by(PyObject *self, size_t *slot, PyObject *name) {
        PyTypeObject *kind = Py_TYPE(self);
        PyObject *method = PyDict_GetItemWithError(kind->tp_dict, name);
        PyMethodDef *how;
        if (method == NULL || !Py_IS_TYPE(method, &PyMethodDescr_Type)) {
            PyErr_Format(PyExc_TypeError, "%s has no compiled method %R", kind->tp_name, name);
            return -1;
        }
        how = ((PyMethodDescrObject *) method)->d_method;
        if (how->ml_flags != (METH_FASTCALL | METH_KEYWORDS))
            return 0;
        *slot = (size_t) aiokafka_lead_call;
        if (aiokafka_lead_calling.call == NULL) {
            aiokafka_lead_calling.call = (_PyCFunctionFastWithKeywords) (void (*)(void)) how->ml_meth;
            kind->tp_vectorcall_offset = (char *) slot - (char *) self;
            kind->tp_call = PyVectorcall_Call;
            kind->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
            PyType_Modified(kind);
        }
        return 0;
    }

    #define aiokafka_lead_call_at(self, slot, name) aiokafka_lead_call_by(self, &slot, name)

    static inline PySendResult aiokafka_lead_run(PyObject *self, PyObject *sent, PyObject **result) {
        PySendResult how = PYGEN_ERROR;
        PyObject *rest;
        *result = aiokafka_lead_calling.first_step(self);
        if (*result != Py_None)
            return *result == NULL ? PYGEN_ERROR : PYGEN_RETURN;
        Py_CLEAR(*result);
        rest = aiokafka_lead_calling.rest(self);
        if (rest != NULL) {
            how = PyIter_Send(rest, sent, result);
            Py_DECREF(rest);
        }
        return how;
    }

    static inline void aiokafka_lead_run_by(PyTypeObject *kind, PyObject *(*first_step)(PyObject *), PyObject *(*rest)(PyObject *)) {
        aiokafka_lead_calling.first_step = first_step;
        aiokafka_lead_calling.rest = rest;
        kind->tp_as_async->am_send = aiokafka_lead_run;
        PyType_Modified(kind);
    }

    #endif
    """
    int call_by "aiokafka_lead_call_at" (object one, size_t slot, object name) except -1
    void aiokafka_lead_run_by(PyTypeObject *kind, object (*first_step)(object), object (*rest)(object))


cdef inline int run_by(type kind, object (*first_step)(object), object (*rest)(object)) except -1:
    aiokafka_lead_run_by(<PyTypeObject *> kind, first_step, rest)
    return 0
