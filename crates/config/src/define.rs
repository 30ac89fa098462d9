//! Two macros. One generates the typed settings from a table. The other defines enums whose variants
//! have the names that settings files use.

/// Defines all settings from one table. Generates the struct of each section, [`Settings`](crate::Settings),
/// [`SettingKey`](crate::SettingKey) and the list of [`Setting`](crate::Setting)s, in the order of the table.
///
/// A row of the table is `Guard KeyVariant field: Type = kind, default "…", variable "…";`. `Guard` is a variant of
/// [`SettingGuard`](crate::SettingGuard), and `KeyVariant` is the variant of `SettingKey` for the setting. The doc
/// comment above the row is the description of the setting. In settings files, the key of the setting is the prefix of
/// its section followed by the name of the field.
macro_rules! define_settings {
    (
        $(
            $(#[doc = $s_doc:literal])+
            $section:ident: $struct:ident, $prefix:literal {
                $($(#[doc = $about:literal])+ $guard:ident $key:ident $field:ident: $type:ty = $kind:expr
                    $(, default $default:expr)? $(, variable $variable:expr)?;)*
            }
        )*
        each $provider:ident {
            $($(#[doc = $p_about:literal])+ $p_guard:ident $p_key:ident $p_field:ident: $p_type:ty = $p_kind:expr
                $(, default $p_default:expr)? $(, variable $p_variable:expr)?;)*
        }
    ) => {
        /// All settings with their effective values. Each value is stored with its source: the flag, variable or file
        /// that set it.
        #[derive(Debug, Clone)]
        pub struct Settings {
            $($(#[doc = $s_doc])+ pub $section: $struct,)*
            providers: [ProviderSettings; Provider::ALL.len()],
            /// Files that the settings were loaded from, and the text of every value before it was parsed.
            pub origin: SettingsOrigin,
        }

        $(
            $(#[doc = $s_doc])+
            #[derive(Debug, Clone)]
            pub struct $struct {
                $($(#[doc = $about])+ pub $field: SettingValue<$type>,)*
            }
        )*

        /// Settings of one provider.
        #[derive(Debug, Clone)]
        pub struct ProviderSettings {
            $($(#[doc = $p_about])+ pub $p_field: SettingValue<$p_type>,)*
        }

        /// Identifier of a setting: one variant for each setting in the table.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum SettingKey {
            $($($(#[doc = $about])+ $key,)*)*
            $($(#[doc = $p_about])+ $p_key(Provider),)*
        }

        impl SettingKey {
            /// The key as it is written in settings files, such as `sandbox.memory`.
            pub fn name(self) -> &'static str {
                match self {
                    $($(SettingKey::$key => concat!($prefix, stringify!($field)),)*)*
                    $(SettingKey::$p_key(provider) => match provider {
                        Provider::Anthropic => concat!("anthropic.", stringify!($p_field)),
                        Provider::OpenAi => concat!("openai.", stringify!($p_field)),
                        Provider::Google => concat!("google.", stringify!($p_field)),
                        Provider::Groq => concat!("groq.", stringify!($p_field)),
                        Provider::OpenRouter => concat!("openrouter.", stringify!($p_field)),
                        Provider::Ollama => concat!("ollama.", stringify!($p_field)),
                    },)*
                }
            }
        }

        impl Settings {
            /// Returns the settings of one provider.
            pub fn provider_settings(&self, provider: Provider) -> &ProviderSettings {
                &self.providers[provider as usize]
            }

            /// Parses the text of every value into the type of its setting.
            pub(crate) fn parse(origin: SettingsOrigin) -> Result<Settings, Failure> {
                let of_provider = |provider| -> Result<ProviderSettings, Failure> {
                    Ok(ProviderSettings { $($p_field: origin.value(SettingKey::$p_key(provider))?,)* })
                };
                let [a, b, c, d, e, f] = Provider::ALL.map(of_provider);
                Ok(Settings {
                    $($section: $struct { $($field: origin.value(SettingKey::$key)?,)* },)*
                    providers: [a?, b?, c?, d?, e?, f?],
                    origin,
                })
            }
        }

        /// Definitions of all settings, in the order in which `assize config show` lists them.
        pub fn all() -> &'static [Setting] {
            static ALL: LazyLock<Vec<Setting>> = LazyLock::new(|| {
                let mut all = vec![
                    $($(Setting {
                        key: SettingKey::$key,
                        kind: $kind,
                        default: None$(.or(Some($default)))?,
                        conventional_variable: None$(.or(Some($variable)))?,
                        guard: SettingGuard::$guard,
                        description: concat!($($about),+).trim_start(),
                    },)*)*
                ];
                for $provider in Provider::ALL {
                    all.extend([
                        $(Setting {
                            key: SettingKey::$p_key($provider),
                            kind: $p_kind,
                            default: None$(.or(Some($p_default)))?,
                            conventional_variable: None$(.or(Some($p_variable)))?,
                            guard: SettingGuard::$p_guard,
                            description: concat!($($p_about),+).trim_start(),
                        },)*
                    ]);
                }
                all
            });
            &ALL
        }
    };
}

/// Defines enums with a name for each variant. The variants are parsed from these names and displayed as these names.
macro_rules! named_values {
    ($($(#[$meta:meta])* $name:ident { $($(#[$value_meta:meta])* $value:ident = $text:literal,)+ })*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$value_meta])* $value,)+
        }

        impl $name {
            /// Names of all variants, in the order of their definition.
            pub const NAMES: &'static [&'static str] = &[$($text),+];
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                match text {
                    $($text => Ok($name::$value),)+
                    other => Err(format!("`{other}` is invalid: expected one of `{}`", $name::NAMES.join("`, `"))),
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(match self {
                    $($name::$value => $text,)+
                })
            }
        }
    )*};
}

pub(crate) use {define_settings, named_values};
