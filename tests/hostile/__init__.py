"""Hostile brokers: the client's reactions to responses that no correct broker sends."""
