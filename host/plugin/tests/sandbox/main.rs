//! The sandbox against real components: what loads, what does not, and what a guest can do to the
//! host, which is nothing.

#[path = "../guests.rs"]
mod guests;

mod caches;
mod calls;
mod hostile;
mod load;
