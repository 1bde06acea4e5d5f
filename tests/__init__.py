"""The tests mirror the package; ``kafka`` holds those against a real Apache Kafka."""
