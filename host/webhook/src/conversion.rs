//! `/convert`: responds to a `ConversionReview` with the resources in the requested version.
//!
//! A list is converted in one review. Its resources are parsed, converted and written one by one, because
//! they need many times as much memory as values than as text. If one resource cannot be converted, the
//! whole review fails, and the message names the resource.

use kube::core::Status;
use llsd_api::conversion::{Version, convert};
use llsd_api::limits::read_object;
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

/// A `ConversionReview` from the API server, without the resources in it.
#[derive(Deserialize)]
struct RequestReview<'a> {
    #[serde(borrow)]
    request: Option<Request<'a>>,
}

#[derive(Deserialize)]
struct Request<'a> {
    uid: String,
    #[serde(rename = "desiredAPIVersion")]
    desired_api_version: String,
    #[serde(borrow)]
    objects: Vec<&'a RawValue>,
}

/// A `ConversionReview` for the API server.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResponseReview {
    api_version: &'static str,
    kind: &'static str,
    response: Response,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response {
    uid: String,
    result: Status,
    converted_objects: Vec<Box<RawValue>>,
}

/// The fields of a resource that a message names.
#[derive(Default, Deserialize)]
struct Named {
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
}

/// Responds to a review. Fails if the body is not a `ConversionReview`.
pub(crate) fn respond(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let review: RequestReview = serde_json::from_slice(body)?;
    let (uid, converted) = match review.request {
        Some(request) => (
            request.uid,
            convert_all(&request.objects, &request.desired_api_version),
        ),
        None => {
            let message = "invalid ConversionReview: the field request is missing; send an apiextensions.k8s.io/v1 ConversionReview";
            (String::new(), Err(message.to_owned()))
        }
    };
    let (result, converted_objects) = match converted {
        Ok(objects) => (Status::success(), objects),
        Err(message) => (Status::failure(&message, "Invalid"), Vec::new()),
    };
    serde_json::to_vec(&ResponseReview {
        api_version: "apiextensions.k8s.io/v1",
        kind: "ConversionReview",
        response: Response {
            uid,
            result,
            converted_objects,
        },
    })
}

fn convert_all(objects: &[&RawValue], to: &str) -> Result<Vec<Box<RawValue>>, String> {
    let to: Version = to.parse().map_err(|error| format!("{error}"))?;
    let convert_one = |object: &&RawValue| {
        let converted = read_object(object.get()).and_then(|object| convert(object, to));
        let converted = converted.map_err(|error| format!("{:?}: {error}", name(object)))?;
        to_raw_value(&converted).map_err(|error| format!("{:?}: {error}", name(object)))
    };
    objects.iter().map(convert_one).collect()
}

/// The name of a resource, even of one that is too deep to be parsed.
fn name(object: &RawValue) -> String {
    let named: Named = serde_json::from_str(object.get()).unwrap_or_default();
    named.metadata.name
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

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
        response_to(&review.to_string())
    }

    fn response_to(review: &str) -> Value {
        let response = respond(review.as_bytes()).unwrap();
        serde_json::from_slice::<Value>(&response).unwrap()["response"].take()
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
        let full = to_raw_value(&full).unwrap();
        let list = vec![&*full; 500];
        let begin = cpu_time();
        let converted = convert_all(&list, "llamastack.io/v1alpha1").unwrap();
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
        assert_eq!(
            response_to(&empty.to_string())["result"]["status"],
            "Failure"
        );
    }

    /// Issue I, row 2: the review failed without its uid, and without the name of the resource.
    #[test]
    fn a_resource_that_is_too_deep_fails_the_review_by_name() {
        let settings = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
        let deep =
            old("deep")
                .to_string()
                .replacen("\"replicas\":0", &format!("\"a\":{settings}"), 1);
        let review = format!(
            r#"{{"request": {{"uid": "u", "desiredAPIVersion": "llamastack.io/v1alpha2", "objects": [{}, {deep}]}}}}"#,
            old("good"),
        );
        let response = response_to(&review);
        assert_eq!(
            (&response["uid"], &response["result"]["status"]),
            (&json!("u"), &json!("Failure"))
        );
        let message = response["result"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("\"deep\": spec: is nested deeper than "),
            "{message}"
        );
    }
}
