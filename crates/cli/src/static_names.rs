//! Name resolution in static binaries.
//!
//! glibc resolves names with the modules that `/etc/nsswitch.conf` lists, and loads them as shared libraries. In a
//! static binary, such a module loads a second glibc, of another version, which may crash the process. This module
//! selects the two modules that are part of the static glibc: files (`/etc/hosts`) and DNS.
#![expect(unsafe_code, reason = "a function of glibc that no crate wraps")]

use std::ffi::{CStr, c_char, c_int};

unsafe extern "C" {
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Selects the name resolution modules that are part of the binary. Must be called before the first name is resolved.
pub(crate) fn use_own_modules() {
    let select = |database: &CStr, services: &CStr| {
        // SAFETY: both pointers point to strings that end with NUL and live longer than the call, which copies them.
        // The call fails only for unknown databases.
        let _ = unsafe { __nss_configure_lookup(database.as_ptr(), services.as_ptr()) };
    };
    select(c"hosts", c"files dns");
    select(c"passwd", c"files");
    select(c"group", c"files");
    select(c"services", c"files");
}
