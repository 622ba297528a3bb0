"""Pure array maths: no classes with behaviour, no knowledge of models."""
