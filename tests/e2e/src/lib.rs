//! End-to-end tests of the operator; all of them are under `tests/`.
