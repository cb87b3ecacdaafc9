//! The secret of the keyed hashes over what strangers choose, kept beside the entries: the ids of comments and the
//! marks of addresses that are stored mean nothing without it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::private_file;

/// The file in the store's directory.
pub const FILE: &str = "secret";

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
pub enum SecretError {
    /// The file cannot be read or made.
    #[error("cannot use {}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file holds something else.
    #[error(
        "{} holds no secret: 32 hexadecimal digits belong there. Put it back from a backup, or remove it: then ids of \
         comments and bans of addresses from before are not recognised any more",
        path.display()
    )]
    Malformed {
        /// Which.
        path: PathBuf,
    },
}

/// The secret of a store, made at its first start.
///
/// # Errors
/// When it can neither be read nor made.
pub fn of(dir: &Path) -> Result<[u8; 16], SecretError> {
    let path = dir.join(FILE);
    let io = |source| SecretError::Io { path: path.clone(), source };
    match fs::read_to_string(&path) {
        Ok(text) => from_hex(text.trim()).ok_or(SecretError::Malformed { path: path.clone() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(&path).map_err(io),
        Err(error) => Err(io(error)),
    }
}

fn make(path: &Path) -> io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(io::Error::other)?;
    let digits: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
    private_file::write(path, format!("{digits}\n").as_bytes())?;
    Ok(secret)
}

fn from_hex(digits: &str) -> Option<[u8; 16]> {
    let plain = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    plain.then(|| u128::from_str_radix(digits, 16).ok().map(u128::to_be_bytes)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `of`: made once, the same ever after, nobody else's to read; a file that holds something else is not overwritten.
    #[test]
    fn a_secret_is_made_once() {
        use std::os::unix::fs::PermissionsExt;
        let dir = std::env::temp_dir().join(format!("danmaku-secret-{}", std::process::id()));
        fs::create_dir_all(&dir).expect("a directory");
        let made = of(&dir).expect("made");
        assert_ne!(made, [0; 16]);
        assert_eq!(of(&dir).expect("read"), made);
        let mode = fs::metadata(dir.join(FILE)).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(dir.join(FILE), "something").expect("written");
        assert!(matches!(of(&dir), Err(SecretError::Malformed { .. })));
        fs::remove_dir_all(&dir).expect("removed");
    }
}
