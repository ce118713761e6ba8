"""Models in files: arrays, numbers, texts and a schema. No pickle, no code.

The format, and what a learner does to be kept in it: docs/isolation.md.
"""

from privledger.models.file import (
    ModelFacts,
    ModelFile,
    kept,
    load_model,
    model_bytes,
    model_file,
    read_model,
    revived,
    save_model,
    write_model,
)

__all__ = [
    "ModelFacts",
    "ModelFile",
    "kept",
    "load_model",
    "model_bytes",
    "model_file",
    "read_model",
    "revived",
    "save_model",
    "write_model",
]
