//! The dashboards ask only for what the real server says.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use support::Server;

/// Labels that Prometheus adds to whatever it scrapes.
const LABELS_OF_PROMETHEUS: [&str; 2] = ["instance", "job"];

/// What a metric has: the names of its labels.
type Metrics = BTreeMap<String, BTreeSet<String>>;

/// Every dashboard of the folder, with its file's name.
fn dashboards() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards");
    let files = std::fs::read_dir(folder).expect("the folder").map(|file| file.expect("a file").path());
    let json = files.filter(|path| path.extension().is_some_and(|ending| ending == "json"));
    json.map(|path| {
        let text = std::fs::read_to_string(&path).expect("a text");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, value)
    })
    .collect()
}

/// What a running server says.
fn scraped() -> Metrics {
    let server = Server::start(&["--workers", "1"]);
    let (status, text) = server.get("/metrics");
    assert_eq!(status, 200);
    let mut metrics = Metrics::new();
    let (_, body) = text.split_once("\r\n\r\n").expect("a body");
    for line in body.lines().filter(|line| line.starts_with("danmaku_")) {
        let (name, rest) = line.split_at(line.find(['{', ' ']).expect("a value"));
        let labels = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
        let names = labels.split(',').filter_map(|label| Some(label.split_once('=')?.0.to_owned()));
        metrics.entry(name.to_owned()).or_default().extend(names);
    }
    metrics
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == ':'
}

/// The metrics of an expression with the labels that it picks them by, and the labels it groups by.
fn named(expression: &str) -> (Vec<(String, Vec<String>)>, Vec<String>) {
    let mut metrics = Vec::new();
    for (at, _) in expression.match_indices("danmaku_") {
        if expression[..at].ends_with(is_name) {
            continue;
        }
        let rest = &expression[at..];
        let (name, rest) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
        let picked = rest.strip_prefix('{').and_then(|rest| rest.split('}').next()).unwrap_or_default();
        let label = |pick: &str| Some(pick[..pick.find(['=', '!'])?].trim().to_owned());
        metrics.push((name.to_owned(), picked.split(',').filter_map(label).collect()));
    }
    let groups = ["by (", "without ("].iter().flat_map(|word| expression.split(word).skip(1));
    let grouped = groups.filter_map(|rest| rest.split(')').next()).flat_map(|list| list.split(','));
    (metrics, grouped.map(|label| label.trim().to_owned()).collect())
}

/// What is wrong with an expression, given what the server says.
fn fault(metrics: &Metrics, expression: &str) -> Option<String> {
    let (wanted, grouped) = named(expression);
    if wanted.is_empty() {
        return Some("it names no metric".to_owned());
    }
    for (name, picked) in wanted {
        let Some(labels) = metrics.get(&name) else { return Some(format!("there is no metric {name}")) };
        let known = |label: &String| labels.contains(label) || LABELS_OF_PROMETHEUS.contains(&label.as_str());
        if let Some(label) = picked.iter().chain(&grouped).find(|label| !known(label)) {
            return Some(format!("{name} has no label {label}"));
        }
    }
    None
}

/// All panels, those inside collapsed rows too.
fn panels(dashboard: &Value) -> Vec<&Value> {
    let top = dashboard["panels"].as_array().into_iter().flatten();
    top.flat_map(|panel| std::iter::once(panel).chain(panel["panels"].as_array().into_iter().flatten()))
        .collect()
}

/// Every metric and label in every expression of every panel and variable is one of the real server.
#[test]
fn every_expression_finds_its_metrics_and_labels() {
    let metrics = scraped();
    let dashboards = dashboards();
    assert!(!dashboards.is_empty());
    for (file, dashboard) in &dashboards {
        let mut seen = 0;
        for panel in panels(dashboard) {
            for target in panel["targets"].as_array().into_iter().flatten() {
                let expression = target["expr"].as_str().unwrap_or_default();
                let fault = fault(&metrics, expression);
                assert_eq!(fault, None, "{file}: {}: {expression}", panel["title"]);
                seen += 1;
            }
        }
        for variable in dashboard["templating"]["list"].as_array().into_iter().flatten() {
            if variable["type"] == "query" {
                let query = variable["definition"].as_str().unwrap_or_default();
                assert_eq!(fault(&metrics, query), None, "{file}: variable {}", variable["name"]);
            }
        }
        assert!(seen > 20, "{file} has {seen} expressions");
    }
}

/// Nothing that the server says is left out of the overview.
#[test]
fn the_overview_shows_every_metric() {
    let metrics = scraped();
    let dashboards = dashboards();
    let (_, overview) = dashboards.iter().find(|(file, _)| file == "overview.json").expect("the overview");
    let mut shown = BTreeSet::new();
    for panel in panels(overview) {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let (wanted, _) = named(target["expr"].as_str().unwrap_or_default());
            shown.extend(wanted.into_iter().map(|(name, _)| name));
        }
    }
    let hidden: Vec<_> = metrics.keys().filter(|name| !shown.contains(*name)).collect();
    assert!(hidden.is_empty(), "no panel shows {hidden:?}: say in one what to do when it moves");
}

/// A reader learns from each panel what to do, and no dashboard is tied to one data source.
#[test]
fn every_panel_is_explained_and_free_of_one_data_source() {
    for (file, dashboard) in dashboards() {
        let mut ids = BTreeSet::new();
        for panel in panels(&dashboard) {
            assert!(ids.insert(panel["id"].to_string()), "{file}: two panels with the id {}", panel["id"]);
            if panel["type"] == "row" {
                continue;
            }
            let words =
                if panel["type"] == "text" { &panel["options"]["content"] } else { &panel["description"] };
            let words = words.as_str().unwrap_or_default();
            assert!(words.len() > 20, "{file}: panel {} {} explains nothing", panel["id"], panel["title"]);
            if panel["type"] != "text" {
                assert_eq!(panel["datasource"]["uid"], "${datasource}", "{file}: {}", panel["title"]);
            }
        }
    }
}

/// `fault`: what is not there is found, as a name, as a label that picks and as one that groups.
#[test]
fn a_wrong_expression_is_found() {
    let labels = BTreeSet::from(["reason".to_owned()]);
    let metrics = Metrics::from([("danmaku_refused_total".to_owned(), labels)]);
    let check = |expression: &str, expected: Option<&str>| {
        assert_eq!(fault(&metrics, expression).as_deref(), expected, "{expression}");
    };
    check(r#"sum by (reason) (rate(danmaku_refused_total{instance=~"$i",reason!="x"}[5m])) > 0"#, None);
    check("rate(danmaku_refused[5m])", Some("there is no metric danmaku_refused"));
    check(r#"danmaku_refused_total{code="x"}"#, Some("danmaku_refused_total has no label code"));
    check("sum by (instance, code) (danmaku_refused_total)", Some("danmaku_refused_total has no label code"));
    check("vector(1)", Some("it names no metric"));
}
