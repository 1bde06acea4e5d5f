"""InitProducerId: producer ids and epochs (KIP-98, KIP-360)."""

from __future__ import annotations

from ..._wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from ...errors import BrokerError, InvalidProducerEpochError, InvalidRequestError, ProducerFencedError
from .._server.context import RequestContext
from .._state.coordinators import TRANSACTION
from .coordinators import check_coordinator

_FENCED_FROM = 4
"""First version whose clients know PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH."""


def init_producer_id(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    engine = context.engine
    try:
        if request.transactional_id is None:
            return InitProducerIdResponse(producer_id=engine.state.next_producer_id(), producer_epoch=0)
        if not request.transactional_id:
            raise InvalidRequestError("a transactional id must not be empty")
        engine.transactions.check_timeout(request.transaction_timeout_ms)
        check_coordinator(context, TRANSACTION, request.transactional_id)
        producer_id, epoch = engine.transactions.init_producer_id(
            request.transactional_id, request.transaction_timeout_ms, request.producer_id, request.producer_epoch
        )
    except ProducerFencedError as error:
        code = error.code if context.api_version >= _FENCED_FROM else InvalidProducerEpochError.code
        return InitProducerIdResponse(error_code=code, producer_id=-1, producer_epoch=-1)
    except BrokerError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)
    return InitProducerIdResponse(producer_id=producer_id, producer_epoch=epoch)


HANDLERS = {InitProducerIdRequest: init_producer_id}
