//! What a run found: rows for people, the same as JSON, and the checks that failed.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::LoadError;

/// One number.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    key: String,
    label: String,
    value: f64,
    unit: &'static str,
}

/// The result of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Report {
    scenario: String,
    rows: Vec<Row>,
    failures: Vec<String>,
}

impl Report {
    /// Nothing yet.
    pub fn new(scenario: &str) -> Self {
        Self { scenario: scenario.to_owned(), ..Self::default() }
    }

    /// Adds a number; what was not measured is left out.
    pub fn row(
        &mut self,
        key: impl Into<String>,
        label: impl Into<String>,
        value: impl Into<Option<f64>>,
        unit: &'static str,
    ) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.rows.push(Row { key: key.into(), label: label.into(), value, unit });
        }
    }

    /// Adds a failed check: one sentence.
    pub fn fail(&mut self, sentence: impl Into<String>) {
        self.failures.push(sentence.into());
    }

    /// Adds the rows and failures of another report, its keys and labels behind a name.
    pub fn include(&mut self, name: &str, other: Self) {
        self.rows.extend(other.rows.into_iter().map(|row| Row {
            key: format!("{name}_{}", row.key),
            label: format!("{name}: {}", row.label),
            ..row
        }));
        self.failures.extend(other.failures.into_iter().map(|failure| format!("{name}: {failure}")));
    }

    /// The value of a row.
    pub fn value(&self, key: &str) -> Option<f64> {
        self.rows.iter().find(|row| row.key == key).map(|row| row.value)
    }

    /// Whether every check passed.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let width = self.rows.iter().map(|row| row.label.chars().count()).max().unwrap_or_default();
        let mut out = format!("{}\n", self.scenario);
        for Row { label, value, unit, .. } in &self.rows {
            out += &format!("  {label:<width$}  {:>14} {unit}\n", figure(*value));
        }
        for failure in &self.failures {
            out += &format!("FAILED: {failure}\n");
        }
        out
    }

    /// The JSON object.
    pub fn json(&self) -> Value {
        let mut object = Map::new();
        object.insert("scenario".into(), self.scenario.clone().into());
        object.insert("passed".into(), self.passed().into());
        object.insert("failures".into(), self.failures.clone().into());
        for row in &self.rows {
            object.insert(row.key.clone(), row.value.into());
        }
        object.into()
    }

    /// Writes the JSON object to a file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), LoadError> {
        let text = format!("{:#}\n", self.json());
        let mut file =
            fs::File::create(path).map_err(|e| LoadError::File { path: path.into(), source: e })?;
        file.write_all(text.as_bytes()).map_err(|e| LoadError::File { path: path.into(), source: e })
    }
}

/// A number with as many digits as say something.
fn figure(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// Columns of the summary: key and heading. Keys in a report may stand behind a name.
const COLUMNS: [(&str, &str); 10] = [
    ("connections", "connections"),
    ("offered_per_s", "msg/s"),
    ("deliveries_per_s", "deliveries/s"),
    ("p50_ms", "p50 ms"),
    ("p99_ms", "p99 ms"),
    ("cpu_us_per_delivery", "CPU µs/delivery"),
    ("writes_per_delivery", "writes/delivery"),
    ("bytes_per_delivery", "bytes/delivery"),
    ("missing", "missing"),
    ("rss_peak_mib", "RSS peak MiB"),
];

/// One markdown table of several result files, a row each, for `docs/benchmarks.md`.
///
/// # Errors
/// When a file cannot be read or is no result.
pub fn markdown(paths: &[PathBuf]) -> Result<String, LoadError> {
    let mut out = String::from("| run | checks |");
    let mut line = String::from("| --- | --- |");
    for (_, heading) in COLUMNS {
        out += &format!(" {heading} |");
        line += " ---: |";
    }
    out += &format!("\n{line}\n");
    for path in paths {
        let bytes = fs::read(path).map_err(|source| LoadError::File { path: path.clone(), source })?;
        let result: Value = serde_json::from_slice(&bytes)
            .map_err(|error| LoadError::File { path: path.clone(), source: error.into() })?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let passed = result["passed"].as_bool() == Some(true);
        out += &format!("| {name} | {} |", if passed { "passed" } else { "FAILED" });
        for (key, _) in COLUMNS {
            out += &result[key].as_f64().map_or_else(|| " |".to_owned(), |v| format!(" {} |", figure(v)));
        }
        out.push('\n');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `Report`: rows and failures come out in both forms, and what was not measured in neither.
    #[test]
    fn numbers_and_failures_are_in_table_and_json() {
        let mut inner = Report::new("inner");
        inner.row("p99_ms", "p99", 12.3456, "ms");
        inner.row("rss", "RSS", None, "KiB");
        inner.row("share", "share", f64::NAN, "");
        inner.fail("it was lost.");
        let mut report = Report::new("giant");
        assert!(report.passed());
        report.include("with", inner);
        let (table, json) = (report.table(), report.json());
        assert!(table.contains("with: p99") && table.contains("12.3 ms"), "{table}");
        assert!(table.contains("FAILED: with: it was lost."), "{table}");
        assert_eq!(json["with_p99_ms"], 12.3456);
        assert_eq!(json["passed"], false);
        assert!(json.get("with_rss").is_none() && json.get("with_share").is_none());
        assert_eq!(report.value("with_p99_ms"), Some(12.3456));
    }
}
