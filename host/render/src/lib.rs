//! The pure core: a resource, a base configuration and plugin answers to desired objects.
//!
//! No client, clock, environment, randomness or async. Equal inputs give byte-equal output.

pub mod adapter;
pub mod yaml;
