"""UpdateFeatures (KIP-584, KIP-778): all updates of a request, or none."""

from __future__ import annotations

from collections.abc import Iterator

from ..._wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ...errors import InvalidUpdateVersionError
from .._server.context import RequestContext
from .._state.features import Features

_UPGRADE = 1
_TYPES_FROM = 1
"""Version 0 has a flag for downgrades instead of types."""
_RESULTS_UP_TO = 1


def update_features(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    features = context.engine.apis.features
    for wrong in _mistakes(features, request, typed=context.api_version >= _TYPES_FROM):
        message = f"The update failed for all features since the following feature had an error: {wrong}"
        return UpdateFeaturesResponse(error_code=InvalidUpdateVersionError.code, error_message=message)
    if not request.validate_only:
        for update in request.feature_updates:
            features.set_level(update.feature, update.max_version_level)
    response = UpdateFeaturesResponse(error_message=None)
    if context.api_version <= _RESULTS_UP_TO:
        response.results = [
            UpdatableFeatureResult(feature=update.feature, error_message="NONE") for update in request.feature_updates
        ]
    return response


def _mistakes(features: Features, request: UpdateFeaturesRequest, *, typed: bool) -> Iterator[str]:
    for update in request.feature_updates:
        name, level = update.feature, update.max_version_level
        wrong = f"Invalid update version {level} for feature {name}."
        if name not in features.supported:
            yield f"{wrong} This cluster does not support this feature."
            continue
        low, high = features.supported[name]
        if not low <= level <= high:
            yield f"{wrong} This cluster only supports versions {low}-{high}"
        if level < features.level(name) and not _may_lower(update, typed=typed):
            yield (
                f"{wrong} Can't downgrade the version of this feature without setting the upgrade type to either safe "
                "or unsafe downgrade."
            )


def _may_lower(update: FeatureUpdateKey, *, typed: bool) -> bool:
    return update.upgrade_type != _UPGRADE if typed else update.allow_downgrade


HANDLERS = {UpdateFeaturesRequest: update_features}
