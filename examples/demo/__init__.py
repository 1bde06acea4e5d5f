"""The demo: a load while leaders move and a broker dies, on this client and on one without leader hints beside it."""
