# The variables of a generator cannot have C types. Even so, its loop takes half the time in compiled form.
