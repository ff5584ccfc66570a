//! An answer of a Prometheus, or what something else answered in its place.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::base::fault::Fault;
use crate::base::text::{fit, said};
use crate::http::Answer;

#[derive(Deserialize)]
struct Envelope<T> {
    data: T,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Failed {
    #[serde(default)]
    error_type: String,
    error: String,
}

/// Series of a query.
#[derive(Deserialize)]
pub struct Found<'a> {
    #[serde(borrow)]
    pub result: Vec<Series<'a>>,
}

#[derive(Deserialize)]
pub struct Series<'a> {
    pub metric: BTreeMap<String, String>,
    /// Seconds, and the value as text.
    #[serde(borrow, default)]
    pub values: Vec<(f64, Cow<'a, str>)>,
}

/// The body, if it is an answer of a Prometheus that worked.
pub fn checked(answer: Answer, shown: &str) -> Result<Vec<u8>, Fault> {
    let Answer { status, body } = answer;
    let text = String::from_utf8_lossy(&body[..body.len().min(2_000)]).into_owned();
    let begins = text.trim_start();
    if !(200..300).contains(&status)
        && let Ok(Failed { error_type, error }) = serde_json::from_slice(&body)
    {
        return Err(failed(shown, status, &error_type, &error));
    }
    match status {
        200..=299 if begins.starts_with('{') => Ok(body),
        200..=299 => {
            Err(Fault::usage(format!("{shown} answers with {}, not as a Prometheus does; {ADDRESS}", kind(begins))))
        }
        401 => Err(Fault::server(format!("{shown} asks for a login; {LOGIN}"))),
        403 => Err(Fault::server(format!(
            "{shown} does not permit it (403); use a login that may read, or check the headers"
        ))),
        404 | 405 => Err(Fault::usage(format!("{shown} has no Prometheus API at that path ({status}); {ADDRESS}"))),
        300..=399 => {
            Err(Fault::usage(format!("{shown} sends us elsewhere ({status}), perhaps to a login page; {ADDRESS}")))
        }
        400 if text.contains("HTTP request to an HTTPS server") => {
            Err(Fault::usage(format!("{shown} speaks HTTPS on that port; write https:// instead of http://")))
        }
        _ => {
            let told = fit(&said(&text), 160);
            Err(Fault::server(format!("{shown} answers {status}: {told}")))
        }
    }
}

const ADDRESS: &str = "check the address and its prefix, as in http://host:9090/prometheus";
const LOGIN: &str = "give --user with --password-file, or --bearer-file";

fn kind(text: &str) -> &'static str {
    let start = text.get(..text.len().min(200)).unwrap_or(text).to_lowercase();
    if start.starts_with('<') || start.contains("<html") { "a web page" } else { "something else" }
}

fn failed(shown: &str, status: u16, kind: &str, error: &str) -> Fault {
    let told = fit(&said(&error), 300);
    match (status, kind) {
        (401, _) => Fault::server(format!("{shown} asks for a login; {LOGIN}")),
        (403, _) => Fault::server(format!("{shown} does not permit it: {told}")),
        _ if error.contains("too many samples") || error.contains("maximum resolution") || kind == "execution" => {
            Fault::server(format!("{shown} can't compute that: {told}; choose a shorter time with --from and --to"))
        }
        (503, _) | (_, "timeout" | "canceled") => {
            Fault::server(format!("{shown} took too long: {told}; choose a shorter time with --from and --to"))
        }
        (400, _) => Fault::usage(format!("{shown} does not understand the question: {told}")),
        _ => Fault::server(format!("{shown} answers {status}: {told}")),
    }
}

/// What is in an answer.
pub fn read<T: DeserializeOwned>(body: &[u8], shown: &str) -> Result<T, Fault> {
    serde_json::from_slice::<Envelope<T>>(body).map(|envelope| envelope.data).map_err(|why| strange(shown, &why))
}

/// The series in an answer.
pub fn series<'a>(body: &'a [u8], shown: &str) -> Result<Vec<Series<'a>>, Fault> {
    #[derive(Deserialize)]
    struct Whole<'a> {
        #[serde(borrow)]
        data: Found<'a>,
    }
    serde_json::from_slice::<Whole<'a>>(body).map(|whole| whole.data.result).map_err(|why| strange(shown, &why))
}

fn strange(shown: &str, why: &serde_json::Error) -> Fault {
    Fault::server(format!("{shown} answers in a way that is not understood ({}); is it a Prometheus?", said(why)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_answer_that_is_none_is_told_with_the_fix_and_its_exit_code() {
        for (status, body, exit, part) in [
            (401, "Unauthorized\n", 3, "--bearer-file"),
            (403, "Forbidden", 3, "may read"),
            (404, "404 page not found", 2, "prefix"),
            (302, "", 2, "login page"),
            (200, "<!DOCTYPE html><html>", 2, "a web page"),
            (200, "hello", 2, "something else"),
            (400, "Client sent an HTTP request to an HTTPS server.\n", 2, "https://"),
            (502, "bad gateway", 3, "502: bad gateway"),
            (400, r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#, 2, "parse error"),
            (
                422,
                r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples"}"#,
                3,
                "--from",
            ),
            (503, r#"{"status":"error","errorType":"timeout","error":"query timed out"}"#, 3, "shorter time"),
            (401, r#"{"status":"error","error":"no org id"}"#, 3, "--bearer-file"),
        ] {
            let fault = checked(Answer { status, body: body.into() }, "http://p").expect_err(body);
            assert!(fault.exit_code() == exit && fault.to_string().contains(part), "{status} {body}: {fault}");
            assert!(fault.to_string().starts_with("http://p "), "{fault}");
        }
        assert!(checked(Answer { status: 200, body: "{}".into() }, "http://p").is_ok());
        assert_eq!(read::<Vec<String>>(b"{\"data\": 5}", "http://p").unwrap_err().exit_code(), 3);
    }

    #[test]
    fn values_are_read_as_prometheus_writes_them() {
        let body = br#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"a":"b\"c"},"values":[[1.5,"+Inf"],[2,"NaN"],[3,"-1e-3"]]}]}}"#;
        let found = series(body, "x").unwrap();
        assert_eq!(found[0].metric["a"], "b\"c");
        let numbers: Vec<f64> = found[0].values.iter().map(|(_, text)| text.parse().unwrap()).collect();
        assert!(numbers[0] == f64::INFINITY && numbers[1].is_nan() && numbers[2] == -1e-3);
    }
}
