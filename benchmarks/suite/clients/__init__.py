"""One module for each client. Each has the coroutines of the kinds of work that it is measured at."""
