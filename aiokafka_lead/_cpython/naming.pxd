# Sets the module that a compiled class shows. naming.py is the plain Python version.
#
# A static type has no `__module__` that could be set. The module is the first part of the type's name.


cdef extern from *:
    """
    #ifdef AIOKAFKA_LEAD_WITHOUT_NAMING

    #define aiokafka_lead_show_in(module, kind) 0

    #else

    static inline int aiokafka_lead_show_in(PyObject *module, PyObject *kind) {
        PyTypeObject *type = (PyTypeObject *) kind;
        const char *own = strrchr(type->tp_name, '.');
        const char *shown;
        PyObject *name;
        if (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
            return PyDict_SetItemString(type->tp_dict, "__module__", module);
        name = PyUnicode_FromFormat("%U.%s", module, own == NULL ? type->tp_name : own + 1);
        shown = name == NULL ? NULL : PyUnicode_AsUTF8(name);
        if (shown == NULL)
            return -1;
        type->tp_name = shown;  /* never freed, because the type lives as long as the process */
        return 0;
    }

    #endif
    """
    int aiokafka_lead_show_in(object module, object kind) except -1


cdef inline int show_in(str module, type kind) except -1:
    return aiokafka_lead_show_in(module, kind)
