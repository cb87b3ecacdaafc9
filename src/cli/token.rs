//! `danmaku token`: a token to try things with.

use std::io::Write;

use clap::Args;

use super::{CliError, ConfigArgs, duration, now_s};
use crate::config::auth_key::KeyMaterial;
use crate::config::value::Duration;
use crate::identity::claims::{Audience, Claims, TokenRole};
use crate::identity::token::sign;

#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    #[command(flatten)]
    common: ConfigArgs,
    /// The user's id.
    #[arg(long, value_name = "ID")]
    user: String,
    /// The display name.
    #[arg(long, default_value = "")]
    name: String,
    /// The role; above vip it needs --global.
    #[arg(long, value_enum, default_value = "viewer")]
    role: TokenRole,
    /// Let the role hold in every room.
    #[arg(long)]
    global: bool,
    /// How long it counts, up to 24h.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = duration)]
    ttl: Duration,
    /// The `id` of the key to sign with; the first one unless given.
    #[arg(long, value_name = "ID")]
    key: Option<String>,
}

pub(super) fn run(args: &TokenArgs) -> Result<(), CliError> {
    let config = args.common.load()?;
    let keys = &config.auth_keys;
    let names = || keys.iter().map(|key| key.id.as_str()).collect::<Vec<_>>().join(", ");
    let key = match &args.key {
        None => keys.first().ok_or_else(|| {
            CliError::Usage(
                "there is no key to sign with: set `[[auth.keys]]` with `id` and `secret` in the file given by \
                 --config"
                    .to_owned(),
            )
        })?,
        Some(id) => keys
            .iter()
            .find(|key| key.id == *id)
            .ok_or_else(|| CliError::Usage(format!("there is no key `{id}` in auth.keys; there are: {}", names())))?,
    };
    if let KeyMaterial::PublicKey(path) = &key.material {
        return Err(CliError::Usage(format!(
            "the key `{}` is a public one ({}): whoever has its private key signs with it; choose one that has a \
             `secret`",
            key.id,
            path.display()
        )));
    }
    let rules = &config.token_rules;
    let audience = match args.role {
        TokenRole::Staff => &rules.staff_audience,
        _ => &rules.audience,
    };
    let now_s = now_s();
    let claims = Claims {
        sub: args.user.clone(),
        exp: (now_s + args.ttl.us() / 1_000_000) as f64,
        iat: Some(now_s as f64),
        iss: rules.issuer.clone(),
        aud: audience.clone().map(Audience::One),
        name: args.name.clone(),
        role: Some(args.role),
        global: args.global,
        ..Claims::default()
    };
    writeln!(std::io::stdout(), "{}", sign(&claims, key, rules, now_s)?)?;
    Ok(())
}
