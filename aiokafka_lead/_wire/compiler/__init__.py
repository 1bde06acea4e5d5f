"""Compiling a schema to a decoder or encoder for one version: Python source that is executed once."""

from .decoder import Decoder, Elements, StepwiseDecoder, make_decoder, make_stepwise_decoder
from .encoder import Encoder, make_encoder

__all__ = [
    "Decoder",
    "Elements",
    "Encoder",
    "StepwiseDecoder",
    "make_decoder",
    "make_encoder",
    "make_stepwise_decoder",
]
