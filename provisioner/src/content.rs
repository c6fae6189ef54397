//! The content service: hands out `/bundles/<name>.tgz` to those who may read, and takes `/uploads/<name>.tgz` from those
//! who may upload.
