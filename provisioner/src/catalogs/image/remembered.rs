//! Which content the image of a CatalogSource had, kept beside the store: after a restart, a catalog is there at once, also
//! while its registry is away. What one CatalogSource was allowed to pull is kept for that one alone, by its uid, and for
//! the image that it named; where a template named it, also for the images that this very template names later, which may
//! not be there yet. And which image that was is known while the template names none.

use std::{
    fs::{self, DirEntry, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::SystemTime,
};

use unpacker::Digest;

/// The folder in that of the store.
const FOLDER: &str = "catalogs";
/// A file has a digest, a reference, and the digest of a template if that was one. Bytes.
const LARGEST: u64 = 4096;
/// In place of a digest, where nobody here has read the content.
const UNREAD: &str = "-";
/// So many are kept; of those that are gone, not all are heard of. One that is forgotten is pulled again.
const MOST: usize = 10_000;

/// What a CatalogSource names.
#[derive(Debug, Clone, Copy)]
pub(in crate::catalogs) struct Named<'a> {
    pub(in crate::catalogs) image: &'a str,
    /// From which that was made.
    pub(in crate::catalogs) template: Option<&'a str>,
}

/// What is in a file.
struct Note {
    digest: Option<Digest>,
    image: String,
    /// The digest of the template from which that was made.
    template: Option<Digest>,
}

/// A folder with a file for each CatalogSource.
#[derive(Debug, Clone)]
pub(in crate::catalogs) struct Remembered {
    folder: PathBuf,
}

// === impl Remembered ===

impl Remembered {
    /// In the folder of the store.
    pub(in crate::catalogs) fn new(store: &Path) -> Self {
        Self {
            folder: store.join(FOLDER),
        }
    }

    /// The content that this CatalogSource had by this image, or by what its template named before, and that image. What
    /// cannot be read is not known.
    pub(in crate::catalogs) fn get(&self, uid: &str, named: Named<'_>) -> Option<(Digest, String)> {
        let note = self.note(uid)?;
        let is_of_template = note.template.is_some() && note.template == of(named.template);
        let is_same = note.image == named.image || is_of_template;
        let digest = note.digest.filter(|_| is_same)?;
        Some((digest, note.image))
    }

    /// The image that this very template of this CatalogSource was last.
    pub(in crate::catalogs) fn last(&self, uid: &str, template: &str) -> Option<String> {
        let note = self.note(uid)?;
        (note.template == of(Some(template))).then_some(note.image)
    }

    /// Keeps the content in place of the one before; without one, that of this very image. What a machine has lost that went
    /// down at the same time is not known.
    pub(in crate::catalogs) fn put(
        &self,
        uid: &str,
        named: Named<'_>,
        digest: Option<Digest>,
    ) -> io::Result<()> {
        let known = || {
            self.get(uid, named)
                .filter(|(_, image)| image == named.image)
        };
        let digest = digest.or_else(|| known().map(|(digest, _)| digest));
        let digest = digest.map_or_else(|| UNREAD.to_owned(), |it| it.to_string());
        let template = of(named.template);
        let template = template.map_or_else(String::new, |it| format!("{it}\n"));
        let text = format!("{digest}\n{}\n{template}", named.image);
        if self.read(uid).as_ref() == Some(&text) {
            return Ok(());
        }
        fs::create_dir_all(&self.folder)?;
        self.sweep(MOST)?;
        let path = self.path(uid);
        let temporary = path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&temporary, &path)
    }

    /// The CatalogSource is gone.
    pub(in crate::catalogs) fn forget(&self, uid: &str) {
        // One that stays does no harm.
        drop(fs::remove_file(self.path(uid)));
    }

    fn note(&self, uid: &str) -> Option<Note> {
        let text = self.read(uid)?;
        let (digest, rest) = text.strip_suffix('\n')?.split_once('\n')?;
        let (image, template) = match rest.split_once('\n') {
            Some((image, template)) => (image, Some(template.parse().ok()?)),
            None => (rest, None),
        };
        Some(Note {
            digest: match digest {
                UNREAD => None,
                digest => Some(digest.parse().ok()?),
            },
            image: image.to_owned(),
            template,
        })
    }

    fn read(&self, uid: &str) -> Option<String> {
        let mut text = String::new();
        let file = File::open(self.path(uid)).ok()?;
        file.take(LARGEST).read_to_string(&mut text).ok()?;
        Some(text)
    }

    /// A tenth of them make room where there are too many, the oldest.
    fn sweep(&self, most: usize) -> io::Result<()> {
        let mut all: Vec<DirEntry> = fs::read_dir(&self.folder)?.collect::<io::Result<_>>()?;
        if all.len() < most {
            return Ok(());
        }
        all.sort_by_cached_key(|it| {
            let written = it.metadata().and_then(|it| it.modified());
            written.unwrap_or(SystemTime::UNIX_EPOCH)
        });
        let kept = most / 10 * 9;
        let surplus = all.len().saturating_sub(kept);
        all.iter()
            .take(surplus)
            .try_for_each(|it| fs::remove_file(it.path()))
    }

    /// Whatever is in a uid, it is no path.
    fn path(&self, uid: &str) -> PathBuf {
        self.folder.join(Digest::of(uid.as_bytes()).hex())
    }
}

/// A template may be long, and have lines.
fn of(template: Option<&str>) -> Option<Digest> {
    template.map(|it| Digest::of(it.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IMAGE: &str = "example.com/catalog:v1";

    fn plain(image: &str) -> Named<'_> {
        Named {
            image,
            template: None,
        }
    }

    fn digest(kept: &Remembered, uid: &str, image: &str) -> Option<Digest> {
        kept.get(uid, plain(image)).map(|(digest, _)| digest)
    }

    #[test]
    fn what_a_template_named_before_is_known_for_what_it_names_now() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::new(folder.path());
        let named = |image, template| Named {
            image,
            template: Some(template),
        };
        let (minor, next) = ("r/c:v1.36", "r/c:v1.37");
        let one = Digest::of(b"one");
        let template = "r/c:v{kube_major_version}.{kube_minor_version}\n";
        kept.put("u1", named(minor, template), Some(one)).unwrap();
        let again = Remembered::new(folder.path());
        let known = Some((one, minor.to_owned()));
        for (uid, named, expected) in [
            ("u1", named(minor, template), &known),
            ("u1", named(next, template), &known),
            ("u1", plain(minor), &known),
            ("u1", plain(next), &None),
            ("u1", named(next, "r/other:{kube_minor_version}"), &None),
            ("u1", named(next, ""), &None),
            ("u2", named(next, template), &None),
        ] {
            assert_eq!(again.get(uid, named), *expected, "{uid} {named:?}");
        }
        // The same content is noted anew when a template has come to name it, or names it no more.
        kept.put("u1", plain(minor), Some(one)).unwrap();
        assert_eq!(again.get("u1", named(next, template)), None);
        kept.put("u1", named(minor, template), Some(one)).unwrap();
        assert_eq!(again.get("u1", named(next, template)), known);
    }

    #[test]
    fn what_a_template_was_last_is_known_also_of_what_nobody_has_read() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::new(folder.path());
        let named = |image| Named {
            image,
            template: Some("r/c:{platform_architecture}"),
        };
        let (one, other) = (named("r/c:x86_64"), named("r/c:aarch64"));
        let last = |uid, template| kept.last(uid, template);
        let template = "r/c:{platform_architecture}";
        assert_eq!(last("u1", template), None);
        kept.put("u1", one, None).unwrap();
        assert_eq!(last("u1", template).as_deref(), Some("r/c:x86_64"));
        assert_eq!(kept.get("u1", one), None, "there is no content");
        let other_template = "r/c:{kube_minor_version}";
        for (uid, template) in [("u2", template), ("u1", other_template), ("u1", "")] {
            assert_eq!(last(uid, template), None, "{uid} {template}");
        }
        // The content of this image is not forgotten, and that of another one is not taken for it.
        let content = Digest::of(b"one");
        kept.put("u1", one, Some(content)).unwrap();
        kept.put("u1", one, None).unwrap();
        assert_rows!(kept.get("u1", one) => Some((content, "r/c:x86_64".to_owned())));
        kept.put("u1", other, None).unwrap();
        assert_eq!(last("u1", template).as_deref(), Some("r/c:aarch64"));
        assert_eq!((kept.get("u1", one), kept.get("u1", other)), (None, None));
        // What no template has named is nobody's last.
        kept.put("u1", plain(IMAGE), Some(content)).unwrap();
        assert_eq!(last("u1", template), None);
    }

    // parity: serve-5
    #[test]
    fn each_catalog_source_has_its_own_content_for_its_own_image() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::new(folder.path());
        assert_eq!(digest(&kept, "u1", IMAGE), None);
        let (one, two) = (Digest::of(b"one"), Digest::of(b"two"));
        kept.put("u1", plain(IMAGE), Some(one)).unwrap();
        kept.put("../u2", plain(IMAGE), Some(two)).unwrap();
        let again = Remembered::new(folder.path());
        assert_eq!(digest(&again, "u1", IMAGE), Some(one));
        assert_eq!(digest(&again, "../u2", IMAGE), Some(two));
        let next = "example.com/catalog:v2";
        for (uid, image) in [("u1", next), ("u1", ""), ("u3", IMAGE), ("", IMAGE)] {
            assert_eq!(digest(&again, uid, image), None, "{uid} {image}");
        }
        again.put("u1", plain(next), Some(two)).unwrap();
        assert_rows!(digest(&again, "u1", IMAGE) => None, "the image is another one");
        again.forget("u1");
        again.forget("u1");
        assert_eq!(digest(&again, "u1", next), None);
        assert_rows!(fs::read_dir(folder.path()).unwrap().count() => 1, "all in one folder");
    }

    #[test]
    fn what_is_damaged_is_not_known_and_too_many_make_room() {
        let folder = tempfile::tempdir().unwrap();
        let kept = Remembered::new(folder.path());
        let content = Digest::of(b"one");
        kept.put("u1", plain(IMAGE), Some(content)).unwrap();
        let whole = format!("{content}\n{IMAGE}\n");
        let cut = &whole[..whole.len() - 1];
        let (foreign, long) = ("sha256:1\nexample.com/catalog:v1\n", "x".repeat(1 << 20));
        for damaged in ["", "\n\n", cut, foreign, &long] {
            fs::write(kept.path("u1"), damaged).unwrap();
            assert_eq!(digest(&kept, "u1", IMAGE), None, "{damaged}");
        }
        fs::write(kept.path("u1"), [0xff, 0xfe]).unwrap();
        assert_eq!(digest(&kept, "u1", IMAGE), None);
        kept.put("u1", plain(IMAGE), Some(content)).unwrap();
        assert_eq!(digest(&kept, "u1", IMAGE), Some(content));

        for at in 0..19 {
            let uid = format!("more{at}");
            kept.put(&uid, plain(IMAGE), Some(content)).unwrap();
        }
        let old = File::options().write(true).open(kept.path("u1")).unwrap();
        old.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        kept.sweep(21).unwrap();
        assert_eq!(digest(&kept, "u1", IMAGE), Some(content), "there is room");
        kept.sweep(20).unwrap();
        assert_eq!(digest(&kept, "u1", IMAGE), None);
        assert_eq!(fs::read_dir(&kept.folder).unwrap().count(), 18);
    }
}
