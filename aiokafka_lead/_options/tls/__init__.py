"""TLS certificate authorities, certificates and keys, from files and texts in PEM and PKCS #12."""
