//! The text that Prometheus scrapes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use danmaku_room::admission::rule::Rule;
use danmaku_wire::native::ErrorCode;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use crate::observe::cells::{CLOSE_CODES, Cell, Cells, Kind};
use crate::observe::limits::Limit;
use crate::store::tally::{COMMIT_BUCKETS_US, StoreTally};

/// Sums the workers' cells at each scrape.
#[derive(Debug)]
struct Workers(Vec<Arc<Cells>>);

/// A registry over the workers' cells and the store's tally.
pub fn registry(cells: Vec<Arc<Cells>>, stored: Arc<StoreTally>) -> Registry {
    let mut registry = Registry::with_prefix("danmaku");
    registry.register_collector(Box::new(Workers(cells)));
    registry.register_collector(Box::new(Stored(stored)));
    registry
}

/// Reads the store's tally at each scrape.
#[derive(Debug)]
struct Stored(Arc<StoreTally>);

impl Collector for Stored {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self(tally) = self;
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        for (name, help, value) in [
            ("store_entries", "Entries that were committed.", &tally.entries),
            ("store_given_up", "Entries that could not be stored and were given up.", &tally.given_up),
            ("store_commit_failures", "Commits that failed.", &tally.failures),
            (
                "store_days_removed",
                "Days of history that were removed for their age or the disk's sake.",
                &tally.removed,
            ),
            ("store_loads", "Rooms that were looked up in the store.", &tally.loads),
        ] {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            ConstCounter::new(read(value)).encode(family)?;
        }
        for (name, help, value) in [
            ("store_up", "Whether entries can be stored.", u64::from(!tally.is_down())),
            (
                "store_files_set_aside",
                "Files of the store that cannot be read; what is in them is not shown.",
                read(&tally.set_aside),
            ),
            ("store_queue_bytes", "Bytes of entries that wait for a commit.", read(&tally.queue_bytes)),
            ("store_file_bytes", "Bytes of history on the disk.", read(&tally.file_bytes)),
            ("store_log_bytes", "Bytes of the store's write-ahead log.", read(&tally.wal_bytes)),
        ] {
            let family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
            ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX)).encode(family)?;
        }
        let help = "How long commits took, from their beginning until they were on the disk.";
        let counts = tally.commits();
        let ends = COMMIT_BUCKETS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = ends.zip(counts).collect();
        let sum = read(&tally.commit_us) as f64 / 1e6;
        let mut family =
            encoder.encode_descriptor("store_commit_seconds", help, None, MetricType::Histogram)?;
        family.encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
    }
}

impl Workers {
    /// What the rules of admission refused, and what those would have that only observe.
    fn encode_rules(&self, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        type Pick = fn(&Cells) -> &[Cell; Rule::ALL.len()];
        let families: [(_, _, Pick); 2] = [
            ("rule_refused", "Comments that rules of admission refused.", |cells| &cells.rules_refused),
            ("rule_observed", "Comments that observing rules would have refused.", |cells| {
                &cells.rules_observed
            }),
        ];
        for (name, help, pick) in families {
            let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (i, rule) in Rule::ALL.iter().enumerate() {
                let count = ConstCounter::new(self.sum(|cells| &pick(cells)[i]));
                count.encode(family.encode_family(&[("rule", rule.name())])?)?;
            }
        }
        Ok(())
    }

    fn sum(&self, pick: impl Fn(&Cells) -> &Cell) -> u64 {
        self.0.iter().map(|cells| pick(cells).read()).fold(0, u64::wrapping_add)
    }
}

impl Collector for Workers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut plain: Vec<(&'static str, &'static str, Kind, u64)> = Vec::new();
        for cells in &self.0 {
            let mut i = 0;
            cells.each(|name, help, kind, value| {
                match plain.get_mut(i) {
                    Some(row) if name.ends_with("_max") => row.3 = row.3.max(value),
                    Some(row) => row.3 = row.3.wrapping_add(value),
                    None => plain.push((name, help, kind, value)),
                }
                i += 1;
            });
        }
        for (name, help, kind, value) in plain {
            match kind {
                Kind::Counter => {
                    let metric = ConstCounter::new(value);
                    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
                }
                Kind::Gauge => {
                    let metric = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)?;
                }
            }
        }
        let mut refused = encoder.encode_descriptor(
            "refused",
            "Publishes and commands refused.",
            None,
            MetricType::Counter,
        )?;
        for (i, code) in ErrorCode::ALL.iter().enumerate() {
            let count = ConstCounter::new(self.sum(|c| &c.refused[i]));
            count.encode(refused.encode_family(&[("reason", code.as_str())])?)?;
        }
        let mut met =
            encoder.encode_descriptor("limit_met", "Limits that peers met.", None, MetricType::Counter)?;
        for (i, limit) in Limit::ALL.iter().enumerate() {
            let count = ConstCounter::new(self.sum(|c| &c.limits[i]));
            count.encode(met.encode_family(&[("limit", limit.row().name)])?)?;
        }
        self.encode_rules(&mut encoder)?;
        let mut closed = encoder.encode_descriptor("closed", "Sessions ended.", None, MetricType::Counter)?;
        for (i, code) in CLOSE_CODES.iter().enumerate() {
            let count = ConstCounter::new(self.sum(|c| &c.closed[i]));
            count.encode(closed.encode_family(&[("code", code.code().to_string())])?)?;
        }
        Ok(())
    }
}
