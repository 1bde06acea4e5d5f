"""Modules for the clients. Each has a coroutine for each kind of work in which the client is measured."""
