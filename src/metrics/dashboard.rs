//! A dashboard for Grafana over the metrics of the table. Pure.
//!
//! A panel is a row of [`PANELS`]; `tests/export.rs` checks every name in it against the table, and has promtool read every
//! expression. Nothing in it depends on the rules.

use serde_json::{Value, json};

/// One panel: its place in the grid follows from the order.
struct Panel {
    title: &'static str,
    /// Of 24 columns.
    width: u32,
    unit: &'static str,
    /// Expressions with their legends.
    queries: &'static [(&'static str, &'static str)],
}

const HEIGHT: u32 = 8;

const fn panel(
    title: &'static str,
    width: u32,
    unit: &'static str,
    queries: &'static [(&'static str, &'static str)],
) -> Panel {
    Panel { title, width, unit, queries }
}

const PANELS: &[Panel] = &[
    panel(
        "Firing alerts",
        12,
        "short",
        &[("sum by (rule, severity) (lockscope_alerts{state=\"firing\"}) > 0", "{{severity}} {{rule}}")],
    ),
    panel(
        "Nodes that answer",
        12,
        "short",
        &[
            ("min by (target, node) (lockscope_up{target=~\"$target\"})", "{{node}}"),
            ("max by (target, node) (lockscope_data_stale{target=~\"$target\"})", "{{node}}: not confirmed"),
        ],
    ),
    panel(
        "Locks by state",
        12,
        "short",
        &[("sum by (state) (lockscope_locks{target=~\"$target\", pattern=~\"$pattern\"})", "{{state}}")],
    ),
    panel(
        "Findings",
        12,
        "short",
        &[("sum by (finding) (lockscope_findings{target=~\"$target\", pattern=~\"$pattern\"}) > 0", "{{finding}}")],
    ),
    panel(
        "Age of the oldest hold",
        12,
        "s",
        &[(
            "time() - min by (target, pattern) (lockscope_oldest_hold_timestamp_seconds{target=~\"$target\", \
             pattern=~\"$pattern\"})",
            "{{pattern}}",
        )],
    ),
    panel(
        "Waiters of the most waited-for lock",
        12,
        "short",
        &[(
            "max by (target, pattern) (lockscope_waiters_max{target=~\"$target\", pattern=~\"$pattern\"})",
            "{{pattern}}",
        )],
    ),
    panel(
        "Holds begun and ended",
        12,
        "ops",
        &[
            (
                "sum(rate(lockscope_holds_started_total{target=~\"$target\", pattern=~\"$pattern\"}[$__rate_interval]))",
                "begun",
            ),
            (
                "sum by (ending) (rate(lockscope_holds_ended_total{target=~\"$target\", pattern=~\"$pattern\"}\
                 [$__rate_interval]))",
                "{{ending}}",
            ),
        ],
    ),
    panel(
        "Duration of holds",
        12,
        "s",
        &[
            (
                "histogram_quantile(0.5, sum by (le) (rate(lockscope_hold_duration_seconds_bucket{target=~\"$target\", \
                 pattern=~\"$pattern\"}[$__rate_interval])))",
                "half",
            ),
            (
                "histogram_quantile(0.99, sum by (le) (rate(lockscope_hold_duration_seconds_bucket{target=~\"$target\", \
                 pattern=~\"$pattern\"}[$__rate_interval])))",
                "99 %",
            ),
        ],
    ),
    panel(
        "Hand-over and renewal, 95 %",
        12,
        "s",
        &[
            (
                "histogram_quantile(0.95, sum by (le) (rate(lockscope_handover_duration_seconds_bucket{target=~\"$target\", \
                 pattern=~\"$pattern\"}[$__rate_interval])))",
                "from the end of a hold to the next",
            ),
            (
                "histogram_quantile(0.95, sum by (le) (rate(lockscope_renewal_interval_seconds_bucket{target=~\"$target\", \
                 pattern=~\"$pattern\"}[$__rate_interval])))",
                "from a lease to its renewal",
            ),
        ],
    ),
    panel(
        "Renewals that were late or missed",
        12,
        "short",
        &[
            (
                "sum by (pattern) (increase(lockscope_renewals_late_total{target=~\"$target\", pattern=~\"$pattern\"}\
                 [$__rate_interval])) > 0",
                "{{pattern}}: late",
            ),
            (
                "max by (pattern) (lockscope_missed_renewals_max{target=~\"$target\", pattern=~\"$pattern\"}) > 0",
                "{{pattern}}: missed by one lock",
            ),
        ],
    ),
    panel(
        "Share of the attempts that failed",
        12,
        "percentunit",
        &[(
            "sum by (pattern, source) (lockscope_failures_per_second{target=~\"$target\", pattern=~\"$pattern\"}) / \
             sum by (pattern, source) (lockscope_attempts_per_second{target=~\"$target\", pattern=~\"$pattern\"})",
            "{{pattern}} ({{source}})",
        )],
    ),
    panel(
        "What lockscope costs",
        12,
        "percentunit",
        &[
            (
                "sum by (node) (rate(lockscope_server_busy_seconds_total{target=~\"$target\"}[$__rate_interval]))",
                "{{node}}: its time that is used",
            ),
            (
                "rate(process_cpu_seconds_total[$__rate_interval]) and on (job, instance) lockscope_build_info",
                "processor of lockscope",
            ),
        ],
    ),
];

/// Every expression, as Grafana sends it but for its own variables.
pub fn expressions() -> impl Iterator<Item = &'static str> {
    PANELS.iter().flat_map(|panel| panel.queries).map(|(expr, _)| *expr)
}

/// The dashboard as JSON.
pub fn dashboard() -> Value {
    let source = json!({ "type": "prometheus", "uid": "${datasource}" });
    let (mut x, mut y) = (0, 0);
    let mut panels = Vec::new();
    for (index, panel) in PANELS.iter().enumerate() {
        if x + panel.width > 24 {
            (x, y) = (0, y + HEIGHT);
        }
        let targets = panel.queries.iter().zip('A'..).map(|((expr, legend), id)| {
            json!({ "refId": id.to_string(), "expr": expr, "legendFormat": legend, "datasource": source })
        });
        panels.push(json!({
            "id": index + 1,
            "type": "timeseries",
            "title": panel.title,
            "datasource": source,
            "gridPos": { "x": x, "y": y, "w": panel.width, "h": HEIGHT },
            "fieldConfig": { "defaults": { "unit": panel.unit, "min": 0 }, "overrides": [] },
            "options": { "tooltip": { "mode": "multi" }, "legend": { "displayMode": "list", "placement": "bottom" } },
            "targets": targets.collect::<Vec<_>>(),
        }));
        x += panel.width;
    }
    let choice = |name: &str, query: &str| {
        json!({
            "name": name, "label": name, "type": "query", "datasource": source, "query": query, "refresh": 2,
            "multi": true, "includeAll": true, "allValue": ".*", "sort": 1,
            "current": { "text": "All", "value": "$__all" },
        })
    };
    json!({
        "uid": "lockscope",
        "title": "Redis locks (lockscope)",
        "tags": ["lockscope", "redis"],
        "schemaVersion": 39,
        "editable": true,
        "refresh": "30s",
        "time": { "from": "now-6h", "to": "now" },
        "templating": { "list": [
            { "name": "datasource", "label": "data source", "type": "datasource", "query": "prometheus" },
            choice("target", "label_values(lockscope_locks, target)"),
            choice("pattern", "label_values(lockscope_locks{target=~\"$target\"}, pattern)"),
        ] },
        "panels": panels,
    })
}
