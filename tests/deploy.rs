//! What `deploy/` promises an operator: settings that the kernel knows, each with its reason, and a unit
//! that fits the binary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Settings of the machine that a container's own view of /proc/sys leaves out.
const HIDDEN_IN_CONTAINERS: [&str; 5] = [
    "fs.file-max",
    "fs.nr_open",
    "net.core.netdev_max_backlog",
    "net.ipv4.tcp_max_orphans",
    "net.ipv4.tcp_mem",
];

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("deploy").join(file)
}

fn read(file: &str) -> String {
    std::fs::read_to_string(deploy(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// A setting and the comment right above it.
#[derive(Debug)]
struct Setting {
    key: String,
    values: Vec<u64>,
    comment: String,
}

fn settings() -> Vec<Setting> {
    let (mut settings, mut comment) = (Vec::new(), String::new());
    for line in read("sysctl.conf").lines() {
        if let Some(words) = line.strip_prefix('#') {
            comment.push_str(words);
        } else if line.is_empty() {
            comment.clear();
        } else {
            let (key, values) =
                line.split_once(" = ").unwrap_or_else(|| panic!("{line:?}: write KEY = VALUE"));
            let values = values.split(' ').map(|value| value.parse().unwrap_or_else(|_| panic!("{line:?}")));
            let comment = std::mem::take(&mut comment);
            settings.push(Setting { key: key.to_owned(), values: values.collect(), comment });
        }
    }
    settings
}

/// Every key is one of the running kernel, with as many values as it has, written once.
#[test]
fn the_kernel_knows_every_setting() {
    let settings = settings();
    assert!(settings.len() > 10, "{settings:?}");
    let mut seen = BTreeMap::new();
    for Setting { key, values, .. } in &settings {
        assert!(seen.insert(key, values).is_none(), "{key} stands twice");
        assert!(values.is_sorted(), "{key}: bounds rise");
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        match std::fs::read_to_string(&path) {
            Ok(now) => assert_eq!(values.len(), now.split_whitespace().count(), "{key} is now {now}"),
            Err(error) if HIDDEN_IN_CONTAINERS.contains(&key.as_str()) => {
                println!("skipped {key}: {path}: {error}; a container does not show it");
            }
            Err(error) => panic!("{key}: {path}: {error}"),
        }
    }
}

/// Every setting says why it is there and in what it counts.
#[test]
fn every_setting_has_its_reason_and_its_unit() {
    const UNITS: [&str; 9] =
        ["Count", "Connections", "Packets", "Bytes", "Pages", "Sockets", "Seconds", "Switch", "Port numbers"];
    for Setting { key, comment, .. } in settings() {
        assert!(
            UNITS.iter().any(|unit| comment.contains(&format!(" {unit}"))),
            "{key}: no unit in {comment:?}"
        );
        assert!(comment.split(' ').count() > 12, "{key}: no reason in {comment:?}");
    }
}

/// A unit's keys with all their values, in order.
fn unit() -> BTreeMap<String, Vec<String>> {
    let mut keys: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in read("danmaku.service").lines().filter(|line| !line.starts_with(['#', '['])) {
        if let Some((key, value)) = line.split_once('=') {
            keys.entry(key.to_owned()).or_default().push(value.to_owned());
        }
    }
    keys
}

/// The codes after which the unit does not start the server again are those of faults that stay.
#[test]
fn the_unit_does_not_repeat_what_fails_every_time() {
    let code = |args: &[&str]| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_danmaku")).args(args).output().expect("the binary runs");
        output.status.code().expect("an exit code").to_string()
    };
    let final_codes = [code(&["serve", "--no-such-flag"]), code(&["check-config", "no/such/file.toml"])];
    assert_eq!(unit()["RestartPreventExitStatus"], [final_codes.join(" ")]);
    assert_eq!(unit()["Restart"], ["on-failure"]);
}

/// The commands of the unit are commands of the binary: their arguments are understood.
#[test]
fn the_units_commands_are_understood() {
    let unit = unit();
    let ours = ["ExecStart", "ExecReload"].into_iter().flat_map(|key| &unit[key]);
    let mut checked = 0;
    for command in ours.filter_map(|command| command.strip_prefix("/usr/bin/danmaku ")) {
        let output = Command::new(env!("CARGO_BIN_EXE_danmaku"))
            .args(command.split(' ').map(|word| word.replace("/etc/danmaku", "no/such/folder")))
            .output()
            .expect("the binary runs");
        // The file is not there, which is a fault of the configuration and not of the arguments.
        assert_eq!(output.status.code(), Some(78), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        checked += 1;
    }
    assert_eq!(checked, 2);
}

/// systemd itself finds nothing wrong with the unit, and calls it well protected.
#[test]
fn systemd_accepts_the_unit() {
    /// Exposure in tenths, where 100 is none at all; the network is what the rest of it is about.
    const EXPOSURE_MAX: &str = "20";
    if Command::new("systemd-analyze").arg("--version").output().is_err() {
        println!("skipped: the program systemd-analyze is not on this machine");
        return;
    }
    // The binary of the unit need not be installed where this runs.
    let text = read("danmaku.service").replace("/usr/bin/danmaku", env!("CARGO_BIN_EXE_danmaku"));
    let folder = std::env::temp_dir().join(format!("danmaku-unit-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("danmaku.service");
    std::fs::write(&file, text).expect("written");
    let analyze = |args: &[&str]| {
        let output = Command::new("systemd-analyze").args(args).arg(&file).output().expect("it runs");
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        (output.status.success(), said.concat())
    };
    let verified = analyze(&["verify"]);
    let mut secured = analyze(&["security", "--no-pager", "--offline=yes", "--threshold", EXPOSURE_MAX]);
    std::fs::remove_dir_all(&folder).expect("removed");
    if secured.1.contains("unrecognized option") {
        println!("skipped the exposure: this systemd-analyze is older than 250");
        secured.0 = true;
    }
    assert!(verified.0 && !verified.1.contains("danmaku.service"), "{}", verified.1);
    assert!(secured.0, "{}", secured.1);
    println!("{}", secured.1.lines().last().unwrap_or_default());
}
