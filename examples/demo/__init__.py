"""The demo: a load while leaders move and a broker dies, on this client with and without leader hints."""
