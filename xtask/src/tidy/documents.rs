//! Every decision that was written down can be found from the map of the code.

use super::Finding;
use super::source::Source;

const MAP: &str = "ARCHITECTURE.md";
const DECISIONS: &str = "docs/decisions/";

pub(super) fn unlinked_decisions(sources: &[Source]) -> Vec<Finding> {
    let Some(map) = sources.iter().find(|source| source.path == MAP) else {
        return Vec::new();
    };
    let decisions = sources.iter().filter(|source| source.path.starts_with(DECISIONS));
    let unlinked = decisions.filter(|decision| !map.text.contains(&format!("({})", decision.path)));
    unlinked.map(|decision| decision.finding(0, format!("no link leads here from {MAP}"))).collect()
}
