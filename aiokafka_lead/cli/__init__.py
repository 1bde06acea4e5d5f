"""The command line, `aiokafka-lead`: a module for each command. It needs the extra "cli" (typer and rich)."""
