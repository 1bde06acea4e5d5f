"""The tests mirror the package; ``kafka`` holds the tests against a real Apache Kafka."""
