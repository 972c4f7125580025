//! `/convert`: responds to a `ConversionReview` with the resources in the requested version.
//!
//! If one resource cannot be converted, the whole review fails, and the message names the resource.

use kube::core::Status;
use kube::core::conversion::{ConversionRequest, ConversionResponse, ConversionReview};
use llsd_api::conversion::{Version, convert};
use serde_json::Value;

/// Responds to a review.
pub(crate) fn respond(review: ConversionReview) -> ConversionReview {
    let Ok(mut request) = ConversionRequest::from_review(review) else {
        let message = "invalid ConversionReview: the field request is missing; send an apiextensions.k8s.io/v1 ConversionReview";
        return ConversionResponse::invalid(Status::failure(message, "BadRequest")).into_review();
    };
    let objects = std::mem::take(&mut request.objects);
    let version: Result<Version, _> = request.desired_api_version.parse();
    let version = version.map_err(|error| error.to_string());
    let converted = version.and_then(|to| convert_all(objects, to));
    let response = ConversionResponse::for_request(request);
    match converted {
        Ok(objects) => response.success(objects),
        Err(message) => response.failure(Status::failure(&message, "Invalid")),
    }
    .into_review()
}

fn convert_all(objects: Vec<Value>, to: Version) -> Result<Vec<Value>, String> {
    let convert_one = |object: Value| {
        let name = object["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        convert(object, to).map_err(|error| format!("{name:?}: {error}"))
    };
    objects.into_iter().map(convert_one).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    /// The CPU time of this thread, which does not depend on the load of the machine.
    fn cpu_time() -> Duration {
        let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
        Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
    }

    fn convert_review(desired: &str, objects: Value) -> Value {
        let review = json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": {"uid": "u", "desiredAPIVersion": desired, "objects": objects},
        });
        let response = respond(serde_json::from_value(review).unwrap());
        serde_json::to_value(response).unwrap()["response"].take()
    }

    fn old(name: &str) -> Value {
        json!({
            "apiVersion": "llamastack.io/v1alpha1",
            "kind": "LlamaStackDistribution",
            "metadata": {"name": name},
            "spec": {"replicas": 0, "server": {"distribution": {"name": "starter"}}},
        })
    }

    #[test]
    fn resources_are_returned_in_order_in_the_requested_version() {
        let response = convert_review("llamastack.io/v1alpha2", json!([old("a"), old("b")]));
        assert_eq!(response["uid"], "u");
        assert_eq!(response["result"]["status"], "Success");
        let converted = response["convertedObjects"].as_array().unwrap();
        assert_eq!(converted.len(), 2);
        assert_eq!(converted[1]["metadata"]["name"], "b");
        assert_eq!(converted[1]["spec"]["workload"]["replicas"], 0);
    }

    #[test]
    fn five_hundred_resources_are_converted_in_less_than_a_second() {
        let full = include_str!("../../../samples/full.yaml");
        let full: Value = llsd_render::yaml::read(full).unwrap();
        let list = vec![full; 500];
        let begin = cpu_time();
        let converted = convert_all(list, Version::V1Alpha1).unwrap();
        let took = cpu_time() - begin;
        assert_eq!(converted.len(), 500);
        // An optimized build takes a tenth of this. `cargo xtask bench webhooks` measures whole requests.
        assert!(took < Duration::from_secs(1), "{took:?}");
    }

    #[test]
    fn a_resource_that_cannot_be_converted_fails_the_review_by_name() {
        let other =
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}});
        let response = convert_review("llamastack.io/v1alpha2", json!([old("a"), other]));
        assert_eq!(response["result"]["status"], "Failure");
        let message = response["result"]["message"].as_str().unwrap();
        assert!(message.starts_with("\"p\": kind: "), "{message}");
        assert_eq!(response["convertedObjects"], json!([]));
    }

    #[test]
    fn an_unknown_version_and_an_empty_review_are_refused() {
        let response = convert_review("llamastack.io/v1", json!([]));
        assert!(
            response["result"]["message"]
                .as_str()
                .unwrap()
                .contains("v1alpha2")
        );
        let empty = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview"});
        let response = respond(serde_json::from_value(empty).unwrap());
        assert_eq!(
            response.response.unwrap().result.status,
            Some(kube::core::response::StatusSummary::Failure)
        );
    }
}
