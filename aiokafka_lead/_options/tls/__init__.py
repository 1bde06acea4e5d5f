"""What TLS works with, made of files and texts: authorities, certificates and keys, in PEM and PKCS #12."""
