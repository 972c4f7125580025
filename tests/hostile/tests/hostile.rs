//! The hostile suite, against the built operator on a real control plane.

#![allow(clippy::unwrap_used, reason = "a failed step must fail the test")]
#![allow(clippy::print_stderr, reason = "the report of the suite")]

use llsd_hostile::{Suite, corpus};

/// Issue I, a standing hostile suite. `LLSD_HOSTILE_CASE` selects the cases whose names contain it.
#[tokio::test(flavor = "multi_thread")]
async fn no_hostile_input_stops_the_operator_or_delays_another_tenant() {
    let filter = std::env::var("LLSD_HOSTILE_CASE").unwrap_or_default();
    let cases = corpus::all();
    let cases: Vec<_> = cases
        .iter()
        .filter(|case| case.name.contains(&filter))
        .collect();
    assert!(!cases.is_empty(), "no case is called {filter:?}");
    let mut suite = Suite::start().await.unwrap();
    eprintln!("{}", suite.describe());
    let mut failures = Vec::new();
    for case in cases {
        match suite.run(case).await {
            Ok(report) => eprintln!(
                "ok    {}: served in {:.1?}, peak {} MiB, then {} MiB; {}",
                case.name,
                report.served,
                report.peak >> 20,
                report.after >> 20,
                report.outcome,
            ),
            Err(error) => {
                eprintln!("FAIL  {}: {error:#}", case.name);
                failures.push(format!(
                    "{} (budget: {}): {error:#}",
                    case.name, case.budget
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}
