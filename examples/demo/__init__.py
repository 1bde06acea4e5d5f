"""The demo: this client under load, with and without leader hints, while leaders move and a broker dies."""
