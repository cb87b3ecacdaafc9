//! The page at `/`, embedded in the binary: every file of `web/` that a browser asks for, and the
//! JavaScript client, which is the one in `clients/js`.
//!
//! A path is looked up in a table of constants: nothing of the file system can be reached from here.

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
};

/// Everything is from here, connections included, and nobody may frame it. Scripts and styles are files:
/// none stands in the document, so that a text that became markup could still do nothing.
const POLICY: &str = "default-src 'self'; connect-src 'self'; frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const JS: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";
const TEXT: &str = "text/plain; charset=utf-8";

/// Path, content type and content of a file.
type File = (&'static str, &'static str, &'static str);

const ICON: &str = include_str!("../../web/favicon.svg");

/// The script `$name` of the page.
macro_rules! script {
    ($name:literal) => {
        (concat!("/js/", $name), JS, include_str!(concat!("../../web/js/", $name)))
    };
}

const FILES: &[File] = &[
    ("/", HTML, include_str!("../../web/index.html")),
    ("/app.css", CSS, include_str!("../../web/app.css")),
    ("/favicon.svg", SVG, ICON),
    // Asked for unasked by browsers; what counts is the type, not the name.
    ("/favicon.ico", SVG, ICON),
    ("/icons.svg", SVG, include_str!("../../web/icons.svg")),
    ("/danmaku.js", JS, include_str!("../../clients/js/danmaku.js")),
    script!("chatlog.js"),
    script!("composer.js"),
    script!("density.js"),
    script!("flight.js"),
    script!("flight_dom.js"),
    script!("i18n.js"),
    script!("kept.js"),
    script!("main.js"),
    script!("notice.js"),
    script!("panels.js"),
    script!("room.js"),
    script!("scene.js"),
    script!("settings.js"),
    script!("sprite.js"),
    script!("stage.js"),
    script!("status.js"),
    script!("texts_en.js"),
    script!("texts_zh.js"),
    ("/vendor/danmaku-canvas.js", JS, include_str!("../../web/vendor/danmaku-canvas.js")),
    // The licence goes where the library goes.
    ("/vendor/danmaku-canvas.LICENSE", TEXT, include_str!("../../web/vendor/danmaku-canvas.LICENSE")),
];

/// The file behind a path of the page, if there is one.
pub fn file(path: &str) -> Option<Response<Full<Bytes>>> {
    let &(_, kind, text) = FILES.iter().find(|(known, ..)| *known == path)?;
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
    Some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(path: &str) -> &'static str {
        FILES.iter().find(|(known, ..)| *known == path).map_or("", |(.., text)| text)
    }

    /// What stands between `before` and the next `"` in `text`, each time.
    fn quoted<'a>(text: &'a str, before: &'a str) -> impl Iterator<Item = &'a str> {
        text.split(before).skip(1).filter_map(|rest| rest.split('"').next())
    }

    /// `reference` as the file `from` means it, without query and fragment.
    fn resolved(from: &str, reference: &str) -> String {
        let reference = reference.split(['#', '?']).next().unwrap_or_default();
        let mut parts: Vec<&str> = from.split('/').collect();
        parts.pop();
        for part in reference.split('/') {
            match part {
                "." => {}
                ".." => drop(parts.pop()),
                name => parts.push(name),
            }
        }
        parts.join("/")
    }

    #[test]
    fn every_file_that_is_referenced_is_served() {
        // Takes the references of the document and the imports and workers of each script.
        let mut referenced = Vec::new();
        for &(path, kind, text) in FILES {
            let marks: &[&str] = match kind {
                HTML => &["href=\"", "src=\""],
                JS => &["from \"", "import \"", "new URL(\""],
                _ => &[],
            };
            for reference in marks.iter().flat_map(|mark| quoted(text, mark)) {
                let is_file = reference.contains('.') || reference.contains('/');
                if is_file && !reference.starts_with('#') {
                    referenced.push((path, resolved(path, reference)));
                }
            }
        }
        assert!(referenced.len() > 20, "the test finds references: {referenced:?}");
        for (from, to) in referenced {
            assert!(file(&to).is_some(), "{from} refers to {to}, which is not served");
        }
        assert!(!text_of("/app.css").contains("url("), "the style sheet refers to a file; look for it here");
    }

    #[test]
    fn every_script_of_the_page_is_referenced() {
        // Searches all scripts for the name of each: a module that nobody imports would be dead weight.
        let all: String =
            FILES.iter().filter(|(path, ..)| *path != "/favicon.ico").map(|(.., text)| *text).collect();
        for &(path, ..) in FILES.iter().filter(|(_, kind, _)| *kind == JS) {
            let name = path.rsplit('/').next().unwrap_or(path);
            assert!(all.contains(&format!("{name}\"")), "nobody refers to {path}");
        }
    }

    #[test]
    fn the_document_holds_no_script_and_no_style() {
        // The policy would refuse them, and the page would be broken in a way that only a browser shows.
        let html = text_of("/");
        assert!(!html.contains(" style=") && !html.contains("<style") && !html.contains(" onclick="));
        assert_eq!(html.matches("<script").count(), html.matches("<script type=\"module\" src=").count());
    }

    #[test]
    fn a_file_goes_out_with_its_type_and_the_policy() {
        // Asks for three kinds of file and looks at the headers.
        for (path, kind) in [("/", HTML), ("/js/main.js", JS), ("/favicon.ico", SVG)] {
            let response = file(path).expect(path);
            assert_eq!(response.headers()[CONTENT_TYPE], kind);
            assert_eq!(response.headers()[CONTENT_SECURITY_POLICY], POLICY);
            assert_eq!(response.headers()[CACHE_CONTROL], "no-cache");
        }
    }

    #[test]
    fn what_is_not_in_the_table_is_not_there() {
        // Paths that a file system would take.
        for path in ["/js/../app.css", "/js/", "/web/index.html", "//", "/../Cargo.toml"] {
            assert!(file(path).is_none(), "{path}");
        }
    }
}
