//! A client against a receiver behind TLS.
//!
//! Method: certificates made here, one authority known to the client and one not.

use std::net::TcpStream;
use std::sync::Arc;

use danmaku_webhook::{Client, Failure, Network, SettingsError, Verdict};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::receiver::{Over, Receiver, pass, question, wait};

struct Tls(Arc<ServerConfig>);

impl Over for Tls {
    type Stream = StreamOwned<ServerConnection, TcpStream>;

    fn wrap(&self, stream: TcpStream) -> Option<Self::Stream> {
        let connection = ServerConnection::new(Arc::clone(&self.0)).ok()?;
        Some(StreamOwned::new(connection, stream))
    }
}

/// A receiver with a certificate for `name`, and the authority behind it in PEM.
fn receiver_for(name: &str) -> (Receiver, String) {
    let mut params = CertificateParams::new(Vec::new()).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority =
        CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("an authority");
    let key = KeyPair::generate().expect("a key");
    let leaf = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
    let leaf = leaf.signed_by(&key, &authority).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![leaf.der().clone()], key)
        .expect("a certificate and its key");
    (Receiver::start_over(Tls(Arc::new(config)), |_| pass()), authority.pem())
}

fn ask(receiver: &Receiver, host: &str, ca_pem: Option<&str>) -> Result<Verdict, Failure> {
    let mut settings = receiver.settings();
    settings.url = format!("https://{host}:{}/danmaku", receiver.address.port());
    settings.allow_private.push(Network::new([0; 16].into(), 0).expect("a network"));
    settings.ca_pem = ca_pem.map(|pem| pem.as_bytes().to_vec());
    wait(Client::new(settings).expect("settings").ask(question("m1")))
}

#[test]
fn a_receiver_is_known_by_its_certificate() {
    let (receiver, authority) = receiver_for("localhost");
    assert_eq!(ask(&receiver, "localhost", Some(&authority)), Ok(Verdict::Pass));
    let (receiver, authority) = receiver_for("127.0.0.1");
    assert_eq!(ask(&receiver, "127.0.0.1", Some(&authority)), Ok(Verdict::Pass));
}

#[test]
fn another_name_or_another_authority_is_not_asked() {
    let (receiver, authority) = receiver_for("other.example");
    assert_eq!(ask(&receiver, "localhost", Some(&authority)), Err(Failure::Tls), "another name");
    let (receiver, _) = receiver_for("localhost");
    let (_, stranger) = receiver_for("localhost");
    assert_eq!(ask(&receiver, "localhost", Some(&stranger)), Err(Failure::Tls), "another authority");
    assert_eq!(ask(&receiver, "localhost", None), Err(Failure::Tls), "Mozilla's do not know it");
    assert!(receiver.all().is_empty());
}

#[test]
fn a_receiver_without_tls_is_not_asked_over_https() {
    let receiver = Receiver::start(|_| pass());
    assert_eq!(ask(&receiver, "localhost", None), Err(Failure::Tls));
    assert!(receiver.all().is_empty());
}

#[test]
fn authorities_that_are_none_are_refused() {
    let receiver = Receiver::start(|_| pass());
    let mut settings = receiver.settings();
    settings.url = "https://hook.example/".to_owned();
    settings.ports = vec![443];
    for pem in ["", "no certificate", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
        settings.ca_pem = Some(pem.as_bytes().to_vec());
        let refused = Client::new(settings.clone()).expect_err(pem);
        assert!(matches!(refused, SettingsError::Tls(_)), "{pem:?}: {refused}");
    }
}
