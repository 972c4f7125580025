//! Shared by `xtask` and `xtask-artifacts`: running programs, directories, and error messages.

pub mod report;
pub mod shell;
