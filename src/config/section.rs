//! Tables of the configuration: one declaration is the type that is read, its defaults, its bounds and
//! its documentation.

use super::value::Setting;

/// A key as it is declared, with a value.
#[derive(Debug, Clone, PartialEq)]
pub struct Key {
    /// The table it stands in, such as `flush`.
    pub table: &'static str,
    /// Its name there.
    pub name: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// The value as TOML; `None` where there is none.
    pub value: Option<String>,
    /// Least and greatest value, as TOML.
    pub bounds: Option<(&'static str, &'static str)>,
    /// Whether a change takes effect at the next start only.
    pub restart: bool,
}

impl Key {
    /// `table.name`.
    pub fn path(&self) -> String {
        format!("{}.{}", self.table, self.name)
    }
}

/// A value outside its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfBounds {
    /// `table.name`.
    pub key: String,
    /// The value as TOML.
    pub value: String,
    /// What would be right.
    pub expected: String,
}

/// A table of the configuration.
pub(super) trait Section {
    /// Its keys, with the values it has.
    fn keys(&self) -> Vec<Key>;

    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// The first that is not.
    fn check(&self) -> Result<(), OutOfBounds>;
}

/// Compares a value with its bounds.
pub(super) fn check<T: Setting + serde::de::DeserializeOwned>(
    key: &Key,
    value: &T,
) -> Result<(), OutOfBounds> {
    let (Some((least, most)), Some(number)) = (key.bounds, value.number()) else { return Ok(()) };
    let bound = |text: &str| {
        let table: std::collections::HashMap<String, T> =
            toml::from_str(&format!("bound = {text}")).expect("bounds are written as values are");
        table["bound"].number().expect("bounds are numbers")
    };
    if (bound(least)..=bound(most)).contains(&number) {
        return Ok(());
    }
    Err(OutOfBounds {
        key: key.path(),
        value: value.written().unwrap_or_default(),
        expected: format!("{least} to {most}"),
    })
}

/// Declares a table: `name: type = default [=> least to most] [; restart],`.
macro_rules! section {
    ($(#[$meta:meta])* $name:ident = $table:literal {
        $( $(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:expr
           $(=> $least:tt to $most:tt)? $(; $restart:ident)?, )*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $default, )* }
            }
        }

        impl $crate::config::section::Section for $name {
            fn keys(&self) -> Vec<$crate::config::section::Key> {
                vec![ $( $crate::config::section::Key {
                    table: $table,
                    name: stringify!($field),
                    doc: concat!($($doc),+).trim_ascii(),
                    value: $crate::config::value::Setting::written(&self.$field),
                    bounds: [$((stringify!($least), stringify!($most)))?].first().copied(),
                    restart: [$(stringify!($restart))?].contains(&"restart"),
                }, )* ]
            }

            fn check(&self) -> Result<(), $crate::config::section::OutOfBounds> {
                let mut keys = self.keys().into_iter();
                $(
                    let key = keys.next().expect("one key per field");
                    $crate::config::section::check(&key, &self.$field)?;
                )*
                Ok(())
            }
        }
    };
}

pub(super) use section;
