//! Replays `tests/golden`; `LLSD_GOLDEN=rewrite` in the environment records the answers anew.

use std::path::Path;

use adapter_example_adapter::Plugin;
use llsd_adapter_sdk::golden::replay_adapter;

#[test]
fn every_fixture_is_answered_as_recorded() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let cases = replay_adapter::<Plugin>(&folder).unwrap();
    assert!(cases > 0, "there are no fixtures");
}
