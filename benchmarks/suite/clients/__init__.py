"""A module for each client, with a coroutine for each kind of work in which it is measured."""
