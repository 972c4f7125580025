//! What `xtask` and `xtask-artifacts` share: running programs, the folders of the workspace, and how
//! a task ends.

pub mod report;
pub mod shell;
