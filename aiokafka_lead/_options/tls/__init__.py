"""Certificate authorities, certificates and keys for TLS, from files and texts in PEM and PKCS #12."""
