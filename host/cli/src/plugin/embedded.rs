//! Files that are part of the binary, for plugin authors who have no checkout: path and text of each.

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));
