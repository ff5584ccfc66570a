//! A moment in the text format that Prometheus scrapes (version 0.0.4). Pure.
//!
//! Each metric that has samples gets one block with HELP and TYPE. There are no timestamps: a series with timestamps gets no
//! stale marker, and its last value would look fresh for minutes after it was gone. `serve` calls it, at most once a moment.

use std::fmt::Write;

use super::series::{Moment, Part, Sample};
use super::table::{Kind, METRICS, Metric};

/// The Content-Type of the text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The whole text of a moment.
pub fn text(moment: &Moment) -> String {
    let mut families: Vec<Vec<&Sample>> = vec![Vec::new(); METRICS.len()];
    for sample in &moment.samples {
        families[usize::from(sample.series.metric.0)].push(sample);
    }
    let mut out = String::with_capacity(moment.samples.len() * 96);
    for (metric, mut samples) in METRICS.iter().zip(families) {
        let Some(kind) = kind_word(metric.kind).filter(|_| !samples.is_empty()) else { continue };
        out.extend(["# HELP ", metric.name, " "]);
        push_escaped(&mut out, metric.help, false);
        out.extend(["\n# TYPE ", metric.name, " ", kind, "\n"]);
        if let Kind::Histogram(_) = metric.kind {
            // One histogram after the other, each from its smallest bucket to its count.
            samples
                .sort_by(|one, other| place(metric, one).partial_cmp(&place(metric, other)).expect("no bound is NaN"));
        }
        samples.iter().for_each(|sample| push_sample(&mut out, metric, sample));
    }
    out
}

fn kind_word(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Gauge => Some("gauge"),
        Kind::Counter => Some("counter"),
        Kind::Histogram(_) => Some("histogram"),
        Kind::Derived => None,
    }
}

/// Where a sample of a histogram stands: by its labels, then its buckets in order, its sum and its count.
fn place<'a>(metric: &Metric, sample: &'a Sample) -> (&'a [std::sync::Arc<str>], Part, f64) {
    let series = &sample.series;
    let bound = series.label("le").and_then(|bound| bound.parse().ok()).unwrap_or(f64::INFINITY);
    (&series.labels[..metric.labels.len()], series.part, bound)
}

fn push_sample(out: &mut String, metric: &Metric, sample: &Sample) {
    let series = &sample.series;
    let suffix = match series.part {
        Part::Value => "",
        Part::Bucket => "_bucket",
        Part::Sum => "_sum",
        Part::Count => "_count",
    };
    out.extend([metric.name, suffix]);
    let names = metric.labels.iter().copied().chain((series.part == Part::Bucket).then_some("le"));
    for (index, (name, value)) in names.zip(&series.labels).enumerate() {
        out.extend([if index == 0 { "{" } else { "," }, name, "=\""]);
        push_escaped(out, value, true);
        out.push('"');
    }
    if !series.labels.is_empty() {
        out.push('}');
    }
    out.push(' ');
    push_number(out, sample.value);
    out.push('\n');
}

/// Backslashes and line feeds escaped; in a label also quotes.
fn push_escaped(out: &mut String, text: &str, label: bool) {
    let special = |c: char| c == '\\' || c == '\n' || label && c == '"';
    let mut rest = text;
    while let Some(at) = rest.find(special) {
        out.push_str(&rest[..at]);
        out.push_str(match rest.as_bytes()[at] {
            b'\\' => "\\\\",
            b'\n' => "\\n",
            _ => "\\\"",
        });
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
}

fn push_number(out: &mut String, value: f64) {
    let _ = match value {
        value if value == f64::INFINITY => write!(out, "+Inf"),
        value if value == f64::NEG_INFINITY => write!(out, "-Inf"),
        // Most are whole numbers, and those are written much faster.
        value if value.fract() == 0.0 && value.abs() < 1e15 => write!(out, "{}", value as i64),
        value => write!(out, "{value}"),
    };
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::base::text::visible;
    use crate::base::time::Time;
    use crate::metrics::{MetricId, Series};

    fn sample(metric: &str, part: Part, labels: &[&str], value: f64) -> Sample {
        let metric = MetricId::named(metric).expect("a metric");
        let labels = labels.iter().map(|label| Arc::from(*label)).collect();
        Sample { series: Series { metric, part, labels }, value }
    }

    fn gauge(metric: &str, labels: &[&str], value: f64) -> Sample {
        sample(metric, Part::Value, labels, value)
    }

    fn written(samples: Vec<Sample>) -> String {
        text(&Moment { at: Time(1_700_000_000_000), samples })
    }

    #[test]
    fn a_family_stands_together_under_one_help_and_type() {
        let text = written(vec![
            gauge("lockscope_up", &["prod", "a:1"], 1.0),
            gauge("lockscope_store_size_bytes", &[], 4096.0),
            gauge("lockscope_up", &["prod", "b:1"], 0.0),
        ]);
        let expected = "# HELP lockscope_up 1 while the node answers and changes are learnt\n\
            # TYPE lockscope_up gauge\n\
            lockscope_up{target=\"prod\",node=\"a:1\"} 1\n\
            lockscope_up{target=\"prod\",node=\"b:1\"} 0\n\
            # HELP lockscope_store_size_bytes Size of the store's file\n\
            # TYPE lockscope_store_size_bytes gauge\n\
            lockscope_store_size_bytes 4096\n";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_histogram_goes_from_its_smallest_bucket_to_its_count() {
        let name = "lockscope_handover_duration_seconds";
        let one = |pattern: &str| {
            vec![
                sample(name, Part::Count, &["t", pattern], 3.0),
                sample(name, Part::Bucket, &["t", pattern, "+Inf"], 3.0),
                sample(name, Part::Bucket, &["t", pattern, "10"], 2.0),
                sample(name, Part::Bucket, &["t", pattern, "0.5"], 1.0),
                sample(name, Part::Sum, &["t", pattern], 12.25),
            ]
        };
        let text = written([one("b"), one("a")].concat());
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let of = |pattern: &str| {
            vec![
                format!("{name}_bucket{{target=\"t\",pattern=\"{pattern}\",le=\"0.5\"}} 1"),
                format!("{name}_bucket{{target=\"t\",pattern=\"{pattern}\",le=\"10\"}} 2"),
                format!("{name}_bucket{{target=\"t\",pattern=\"{pattern}\",le=\"+Inf\"}} 3"),
                format!("{name}_sum{{target=\"t\",pattern=\"{pattern}\"}} 12.25"),
                format!("{name}_count{{target=\"t\",pattern=\"{pattern}\"}} 3"),
            ]
        };
        assert_eq!(lines, [vec![format!("# TYPE {name} histogram")], of("a"), of("b")].concat());
    }

    #[test]
    fn a_name_of_any_bytes_is_one_line_of_valid_text() {
        let names: [&[u8]; 5] = [b"a\"b", b"a\\b", b"a\nb", b"a\xff\x00b", "a\u{202e}b 锁".as_bytes()];
        let samples = names.map(|name| gauge("lockscope_waiters", &["t", &visible(name)], 1.0)).to_vec();
        let text = written(samples);
        assert_eq!(text.lines().count(), 2 + names.len());
        let expected = [r#"a\"b"#, r"a\\\\b", r"a\\nb", r"a\\xff\\u{0}b", r"a\\u{202e}b 锁"];
        for name in expected {
            assert!(text.contains(&format!("{{target=\"t\",pattern=\"{name}\"}} 1\n")), "{name} in {text}");
        }
    }

    #[test]
    fn a_control_character_that_slips_through_does_not_end_the_line() {
        let text = written(vec![gauge("lockscope_waiters", &["t", "a\nb"], 1.0)]);
        assert_eq!(text.lines().nth(2), Some("lockscope_waiters{target=\"t\",pattern=\"a\\nb\"} 1"));
    }

    #[test]
    fn numbers_are_written_as_prometheus_reads_them() {
        for (value, expected) in [
            (0.0, "0"),
            (-1.5, "-1.5"),
            (1_763_000_000.25, "1763000000.25"),
            (1e15, "1000000000000000"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ] {
            let text = written(vec![gauge("lockscope_store_size_bytes", &[], value)]);
            assert_eq!(text.lines().last(), Some(&*format!("lockscope_store_size_bytes {expected}")));
        }
    }

    #[test]
    fn what_is_derived_is_not_exposed_and_what_is_unknown_is_absent() {
        assert_eq!(written(vec![gauge("lockscope_failure_ratio", &["t", "p", "counted"], 0.5)]), "");
        assert_eq!(written(Vec::new()), "");
    }
}
