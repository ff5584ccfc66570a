//! The pictures of an incident, as inline SVG: what was left of the lease, the holds and what happened on one line of time, and
//! figures against their threshold. Colours come from the page's style, so that they fit a light and a dark screen.

use serde_json::Value;

use super::html::Html;
use crate::base::text::short_duration;
use crate::base::time::Time;

/// The drawing area within the picture.
const LEFT: f64 = 60.0;
const WIDTH: f64 = 640.0;
const TOP: f64 = 12.0;
const HEIGHT: f64 = 120.0;

/// An axis of time.
struct Axis {
    from: i64,
    to: i64,
}

impl Axis {
    fn x(&self, at: i64) -> f64 {
        let span = (self.to - self.from).max(1) as f64;
        LEFT + ((at - self.from) as f64 / span).clamp(0.0, 1.0) * WIDTH
    }
}

fn time(value: &Value) -> Option<i64> {
    value.as_str().and_then(Time::of_rfc3339).map(|at| at.0)
}

fn pairs(list: &Value) -> Vec<(i64, Option<f64>)> {
    let pair = |item: &Value| Some((item.get(0)?.as_i64()?, item.get(1).and_then(Value::as_f64)));
    list.as_array().map(|items| items.iter().filter_map(pair).collect()).unwrap_or_default()
}

/// What was left of the lease, with the renewals that came and those that did not.
pub fn lease(html: &mut Html, lease: &Value) {
    let (Some(from), Some(now), Some(deadline)) = (time(&lease["from"]), time(&lease["now"]), time(&lease["deadline"]))
    else {
        return;
    };
    let (axis, whole) = (Axis { from, to: deadline.max(now) }, lease["lease_ms"].as_f64().unwrap_or(1.0).max(1.0));
    begin(html, "The TTL over time: it falls, and each renewal lifts it");
    frame(html, &short_duration(whole as u64), "0s");
    line(html, &axis, &pairs(&lease["left"]), whole, now);
    for at in lease["renewed"].as_array().into_iter().flatten().filter_map(time) {
        stroke(html, "<line class=\"good\" x1=\"", axis.x(at), TOP + HEIGHT, TOP + HEIGHT + 10.0);
    }
    for due in lease["due"].as_array().into_iter().flatten().filter(|due| due["missed"] == true) {
        if let Some(at) = time(&due["at"]) {
            label(html, "<text class=\"bad\" text-anchor=\"middle\" x=\"", axis.x(at), TOP + HEIGHT + 12.0, "×");
        }
    }
    stroke(html, "<line class=\"now\" x1=\"", axis.x(now), TOP, TOP + HEIGHT);
    scale(html, &axis, Some(now));
    end(html);
}

/// Holds as bars, and what happened as points, on one line of time.
pub fn story(html: &mut Html, document: &Value) {
    let now = time(&document["at"]);
    let holds: Vec<(i64, i64, String)> = document["history"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|hold| Some((time(&hold["since"])?, time(&hold["until"])?, words(&hold["ended"]))))
        .collect();
    let happened: Vec<(i64, String)> = document["timeline"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some((time(&entry["at"])?, words(&entry["notable"]))))
        .collect();
    let times = holds.iter().flat_map(|(from, to, _)| [*from, *to]).chain(happened.iter().map(|(at, _)| *at));
    let times: Vec<i64> = times.chain(now.filter(|_| document["lock"].is_object())).collect();
    let (Some(from), Some(to)) = (times.iter().min(), times.iter().max()) else { return };
    let axis = Axis { from: *from, to: (*to).max(from + 1_000) };
    begin(html, "The holds before as bars, and what happened as points");
    for (index, (since, until, ended)) in holds.iter().enumerate() {
        let (x, y) = (axis.x(*since), TOP + 10.0 + (index % 4) as f64 * 16.0);
        let width = (axis.x(*until) - x).max(2.0);
        html.tag("<rect class=\"hold\" height=\"10\" x=\"").number(x).tag("\" y=\"").number(y);
        html.tag("\" width=\"").number(width).tag("\"><title>").text(ended).tag("</title></rect>");
    }
    for (at, what) in &happened {
        html.tag("<circle class=\"point\" r=\"5\" cx=\"")
            .number(axis.x(*at))
            .tag("\" cy=\"")
            .number(TOP + HEIGHT - 20.0);
        html.tag("\"><title>").text(what).tag("</title></circle>");
    }
    html.tag("<line class=\"frame\" x1=\"").number(LEFT).tag("\" x2=\"").number(LEFT + WIDTH);
    html.tag("\" y1=\"").number(TOP + HEIGHT).tag("\" y2=\"").number(TOP + HEIGHT).tag("\"/>");
    scale(html, &axis, now);
    end(html);
}

/// A figure over time, with the threshold as a line. Returns whether there was anything to draw.
pub fn figure(html: &mut Html, figure: &Value, episode: &Value) -> bool {
    let points = pairs(&figure["points"]);
    let known = points.iter().filter_map(|(_, value)| *value);
    let Some(most) = known.fold(None, |most: Option<f64>, value| Some(most.map_or(value, |most| most.max(value))))
    else {
        return false;
    };
    let threshold = figure["threshold"].as_f64();
    let whole = (most.max(threshold.unwrap_or(0.0)) * 1.1).max(1.0);
    let axis = Axis { from: points[0].0, to: points[points.len() - 1].0 };
    let metric = figure["metric"].as_str().unwrap_or_default();
    let seconds = metric.ends_with("_seconds");
    let number = |value: f64| match seconds {
        true => short_duration((value * 1_000.0) as u64),
        false => ((value * 10.0).round() / 10.0).to_string(),
    };
    begin(html, "A figure over time, and its threshold");
    if let (Some(from), Some(to)) = (time(&episode["fired"]), time(&episode["until"])) {
        html.tag("<rect class=\"fired\" x=\"").number(axis.x(from)).tag("\" y=\"").number(TOP).tag("\" height=\"");
        html.number(HEIGHT).tag("\" width=\"").number((axis.x(to) - axis.x(from)).max(2.0)).tag("\"/>");
    }
    frame(html, &number(whole), "0");
    line(html, &axis, &points, whole, i64::MAX);
    if let Some(level) = threshold {
        let y = TOP + HEIGHT - (level / whole).clamp(0.0, 1.0) * HEIGHT;
        html.tag("<line class=\"level\" x1=\"").number(LEFT).tag("\" x2=\"").number(LEFT + WIDTH);
        html.tag("\" y1=\"").number(y).tag("\" y2=\"").number(y).tag("\"/>");
        label(html, "<text class=\"bad\" text-anchor=\"end\" x=\"", LEFT - 4.0, y + 4.0, &number(level));
    }
    scale(html, &axis, None);
    end(html);
    true
}

/// Those who wait, each with how long it has.
pub fn waiters(html: &mut Html, clients: &[(String, Option<u64>)]) {
    let longest = clients.iter().filter_map(|(_, waited)| *waited).max().unwrap_or(0).max(1) as f64;
    html.tag("<ul class=\"bars\">");
    for (name, waited) in clients {
        html.tag("<li><span>")
            .text(name)
            .tag("</span><svg viewBox=\"0 0 200 12\" aria-hidden=\"true\"><rect class=\"hold\" ");
        html.tag("height=\"12\" width=\"").number(waited.map_or(0.0, |waited| waited as f64 / longest * 200.0));
        html.tag("\"/></svg><span>").text(&waited.map_or("?".to_string(), short_duration)).tag("</span></li>");
    }
    html.tag("</ul>");
}

fn begin(html: &mut Html, title: &'static str) {
    html.tag("<svg class=\"picture\" viewBox=\"0 0 720 172\" role=\"img\"><title>").text(title).tag("</title>");
}

fn end(html: &mut Html) {
    html.tag("</svg>");
}

fn frame(html: &mut Html, top: &str, bottom: &str) {
    html.tag("<path class=\"frame\" d=\"M").number(LEFT).tag(" ").number(TOP).tag("V").number(TOP + HEIGHT);
    html.tag("H").number(LEFT + WIDTH).tag("\"/>");
    label(html, "<text text-anchor=\"end\" x=\"", LEFT - 4.0, TOP + 8.0, top);
    label(html, "<text text-anchor=\"end\" x=\"", LEFT - 4.0, TOP + HEIGHT, bottom);
}

/// The line, broken where nothing is known; what lies ahead of `now` is another line.
fn line(html: &mut Html, axis: &Axis, points: &[(i64, Option<f64>)], whole: f64, now: i64) {
    let place = |at: i64, value: f64| (axis.x(at), TOP + HEIGHT - (value / whole).clamp(0.0, 1.0) * HEIGHT);
    for run in points.chunk_by(|a, b| a.1.is_some() == b.1.is_some() && (a.0 <= now) == (b.0 <= now)) {
        if run[0].1.is_none() {
            continue;
        }
        html.tag(if run[0].0 <= now {
            "<polyline class=\"line\" points=\""
        } else {
            "<polyline class=\"ahead\" points=\""
        });
        for (at, value) in run {
            let (x, y) = place(*at, value.unwrap_or(0.0));
            html.number(x).tag(",").number(y).tag(" ");
        }
        html.tag("\"/>");
    }
}

fn stroke(html: &mut Html, begin: &'static str, x: f64, top: f64, bottom: f64) {
    html.tag(begin)
        .number(x)
        .tag("\" x2=\"")
        .number(x)
        .tag("\" y1=\"")
        .number(top)
        .tag("\" y2=\"")
        .number(bottom)
        .tag("\"/>");
}

fn label(html: &mut Html, begin: &'static str, x: f64, y: f64, text: &str) {
    html.tag(begin).number(x).tag("\" y=\"").number(y).tag("\">").text(text).tag("</text>");
}

/// The times at both ends, and now.
fn scale(html: &mut Html, axis: &Axis, now: Option<i64>) {
    let clock = |at: i64| Time(at).rfc3339().get(11..19).unwrap_or_default().to_string();
    let y = TOP + HEIGHT + 30.0;
    label(html, "<text x=\"", LEFT, y, &clock(axis.from));
    label(html, "<text text-anchor=\"end\" x=\"", LEFT + WIDTH, y, &clock(axis.to));
    if let Some(now) = now.map(|now| axis.x(now)).filter(|x| *x > LEFT + 90.0 && *x < LEFT + WIDTH - 90.0) {
        label(html, "<text text-anchor=\"middle\" x=\"", now, y, "now");
    }
}

fn words(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_string()
}
