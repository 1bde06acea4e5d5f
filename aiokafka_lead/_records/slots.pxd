# Attributes of compiled types; slots.py has the same for plain Python.
#
# Cython gives each a function that returns it. CPython reads a member descriptor of an object inline instead, once the
# code that does so is warm (LOAD_ATTR_SLOT, PEP 659), as it does with `__slots__`. Where in the object an attribute is,
# a sample tells.


cdef extern from *:
    """
    #include "structmember.h"

    static PyObject *aiokafka_lead_member(PyObject *sample, PyObject *name) {
        PyTypeObject *kind = Py_TYPE(sample);
        PyObject *content = PyObject_GetAttr(sample, name);
        PyMemberDef *member;
        Py_ssize_t at = sizeof(PyObject);
        if (content == NULL)
            return NULL;
        while (at < kind->tp_basicsize && *(PyObject **) ((char *) sample + at) != content)
            at += sizeof(PyObject *);
        Py_DECREF(content);
        if (at >= kind->tp_basicsize)
            return PyErr_Format(PyExc_TypeError, "%R is no object in instances of %s", name, kind->tp_name);
        member = (PyMemberDef *) PyMem_Calloc(1, sizeof(PyMemberDef));  /* for as long as the type lives, as the name */
        if (member == NULL)
            return PyErr_NoMemory();
        Py_INCREF(name);
        member->name = PyUnicode_AsUTF8(name);
        member->type = T_OBJECT_EX;
        member->offset = at;
        member->flags = READONLY;
        return PyDescr_NewMember(kind, member);
    }

    static int aiokafka_lead_expose(PyObject *sample, PyObject *names) {
        PyTypeObject *kind = Py_TYPE(sample);
        Py_ssize_t i;
        for (i = 0; i < PyTuple_GET_SIZE(names); i++) {
            PyObject *name = PyTuple_GET_ITEM(names, i);
            PyObject *member = aiokafka_lead_member(sample, name);
            int failed = member == NULL || PyDict_SetItem(kind->tp_dict, name, member) < 0;
            Py_XDECREF(member);
            if (failed)
                return -1;
        }
        PyType_Modified(kind);
        return 0;
    }
    """
    int aiokafka_lead_expose(object sample, tuple names) except -1


cdef inline int expose(object sample, tuple names) except -1:
    return aiokafka_lead_expose(sample, names)
