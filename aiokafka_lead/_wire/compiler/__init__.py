"""Compiles a schema into a decoder or an encoder for one version: Python source, executed once."""

from __future__ import annotations

from .decoder import Decoder, make_decoder
from .encoder import Encoder, make_encoder

__all__ = ["Decoder", "Encoder", "make_decoder", "make_encoder"]
