//! Named sites: where a program takes part in the order of persistence.

/// What a site does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SiteKind {
    /// Stores that are flushed at another site.
    Store,
    /// Puts stored lines in flight.
    Flush,
    /// Streams past the caches.
    Stream,
    /// Store and flush, or stream, by length.
    Write,
    /// Makes durable what is in flight.
    Fence,
    /// Writes blocks.
    DiskWrite,
    /// Makes written blocks durable.
    DiskSync,
}

/// One site: a line of a program that takes part in the order of persistence. Declared by
/// [`sites!`], so that a site which no test reaches can be found.
///
/// [`sites!`]: crate::sites
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Site {
    /// Unique in the program, `what.step` by custom: `commit.fence`, `log.sync`.
    pub name: &'static str,
    /// What happens there.
    pub kind: SiteKind,
}

/// Declares a module of [`Site`] constants and `ALL`, the list of them.
///
/// ```
/// journal_core::sites! {
///     /// Where a record is written.
///     pub mod site {
///         BODY: Write = "commit.body";
///         DONE: Fence = "commit.done";
///     }
/// }
/// assert_eq!(site::ALL, [site::BODY, site::DONE]);
/// ```
#[macro_export]
macro_rules! sites {
    ($(#[$doc:meta])* $vis:vis mod $module:ident {
        $($(#[$site_doc:meta])* $name:ident: $kind:ident = $text:literal;)+
    }) => {
        $(#[$doc])*
        #[allow(
            dead_code,
            missing_docs,
            unreachable_pub,
            reason = "a list for tests, as visible as its module"
        )]
        $vis mod $module {
            $($(#[$site_doc])*
            pub const $name: $crate::hook::Site =
                $crate::hook::Site { name: $text, kind: $crate::hook::SiteKind::$kind };)+
            /// Every site of this module.
            pub const ALL: &[$crate::hook::Site] = &[$($name),+];
        }
    };
}
