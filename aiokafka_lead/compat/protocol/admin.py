"""Fields of the responses to admin requests."""

from .api import Rows

__all__ = [
    "ALTERED_CONFIGS",
    "CREATED_PARTITIONS",
    "CREATED_TOPICS",
    "DELETED_TOPICS",
    "DESCRIBED_CONFIGS",
    "DESCRIBED_GROUPS",
]

_THROTTLE = ("throttle_time_ms", "throttle_time_ms")
_CODE = ("error_code", "error_code")
_MESSAGE = ("error_message", "error_message")
_NAMED = Rows(("topic", "name"), _CODE, _MESSAGE)

CREATED_TOPICS = Rows(_THROTTLE, ("topic_errors", "topics", _NAMED))
CREATED_PARTITIONS = Rows(_THROTTLE, ("topic_errors", "results", _NAMED))
DELETED_TOPICS = Rows(_THROTTLE, ("topic_error_codes", "responses", Rows(("topic", "name"), _CODE)))
ALTERED_CONFIGS = Rows(
    _THROTTLE,
    (
        "resources",
        "responses",
        Rows(_CODE, _MESSAGE, ("resource_type", "resource_type"), ("resource_name", "resource_name")),
    ),
)
DESCRIBED_CONFIGS = Rows(
    _THROTTLE,
    (
        "resources",
        "results",
        Rows(
            _CODE,
            _MESSAGE,
            ("resource_type", "resource_type"),
            ("resource_name", "resource_name"),
            (
                "config_entries",
                "configs",
                Rows(
                    ("config_names", "name"),
                    ("config_value", "value"),
                    ("read_only", "read_only"),
                    ("config_source", "config_source"),
                    ("is_sensitive", "is_sensitive"),
                    (
                        "config_synonyms",
                        "synonyms",
                        Rows(("config_name", "name"), ("config_value", "value"), ("config_source", "source")),
                    ),
                ),
            ),
        ),
    ),
)
DESCRIBED_GROUPS = Rows(
    _THROTTLE,
    (
        "groups",
        "groups",
        Rows(
            _CODE,
            ("group", "group_id"),
            ("state", "group_state"),
            ("protocol_type", "protocol_type"),
            ("protocol", "protocol_data"),
            (
                "members",
                "members",
                Rows(
                    ("member_id", "member_id"),
                    ("client_id", "client_id"),
                    ("client_host", "client_host"),
                    ("member_metadata", "member_metadata"),
                    ("member_assignment", "member_assignment"),
                ),
            ),
        ),
    ),
)
