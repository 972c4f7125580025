//! The caches of the client: an LRU cache in memory, a cache on disk, and single flight for concurrent
//! requests.

mod disk;
mod lru;
mod single_flight;

pub(crate) use disk::DiskCache;
pub(crate) use lru::LruCache;
pub(crate) use single_flight::SingleFlight;
