//! The page at `/`, embedded in the binary.

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
};

/// The file behind a path of the page, if there is one.
pub fn file(path: &str) -> Option<Response<Full<Bytes>>> {
    let (kind, text) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("../../web/index.html")),
        "/app.js" => ("text/javascript; charset=utf-8", include_str!("../../web/app.js")),
        "/app.css" => ("text/css; charset=utf-8", include_str!("../../web/app.css")),
        _ => return None,
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'self'; connect-src 'self'; frame-ancestors 'none'"),
    );
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    Some(response)
}
