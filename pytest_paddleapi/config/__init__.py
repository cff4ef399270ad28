"""The config language: parse, print, canonical form, files. Standard library only."""

from .canonical import canonical_text
from .errors import ConfigFileError, ConfigSyntaxError
from .model import COMPLEX, FLOATING, INTEGRAL, ITEMSIZE, Call, DtypeRef, TensorSpec, TypeRef
from .parse import parse_call
from .printing import print_arguments, print_call, print_value

__all__ = [
    "COMPLEX",
    "FLOATING",
    "INTEGRAL",
    "ITEMSIZE",
    "Call",
    "ConfigFileError",
    "ConfigSyntaxError",
    "DtypeRef",
    "TensorSpec",
    "TypeRef",
    "canonical_text",
    "parse_call",
    "print_arguments",
    "print_call",
    "print_value",
]
