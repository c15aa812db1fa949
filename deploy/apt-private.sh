# Sourced by scripts that need a package of a suite the system does not list: a private apt
# configuration under build/apt, so that the system's own is never touched. The mirror is the one
# the system's sources name.

# The stanza or line of the system's sources that serves this release's main suite: "URI keyring".
apt_system_source()
{
    awk -v suite="$VERSION_CODENAME" '
        function flush() {
            if (uri != "" && (" " suites " ") ~ (" " suite " ")) { print uri, key; found = 1; exit }
            uri = suites = key = ""
        }
        FNR == 1 { flush() }
        /^[ \t]*$/ { flush(); next }
        /^URIs:/ { uri = $2 }
        /^Suites:/ { $1 = ""; suites = $0 }
        /^Signed-By:/ { key = $2 }
        /^deb / {
            line = $0
            if (line ~ /\[/) {
                key = line; sub(/.*signed-by=/, "", key); sub(/[] ].*/, "", key)
                sub(/\[[^]]*\] */, "", line)
            }
            split(line, f, " ")
            if (f[3] == suite) { print f[2], key; found = 1; exit }
            key = ""
        }
        END { if (!found) flush() }
    ' /etc/apt/sources.list.d/*.sources /etc/apt/sources.list /etc/apt/sources.list.d/*.list \
        2>/dev/null | head -n 1
}

# apt_private SUITE [deb|deb-src]: make and update build/apt/SUITE. Sets apt_dir and apt_opts.
apt_private()
{
    local suite=$1 kind=${2:-deb} uri key
    read -r uri key < <(apt_system_source) || true
    [ -n "${uri:-}" ] || { echo "no apt source for $VERSION_CODENAME" >&2; return 1; }
    apt_dir=$PWD/build/apt/$suite
    [ "$kind" = deb ] || apt_dir+=-source
    mkdir -p "$apt_dir/lists/partial" "$apt_dir/cache/archives/partial" "$apt_dir/debs"
    chmod -R a+rX build 2>/dev/null || true
    printf '%s %s %s %s main\n' "$kind" "${key:+[signed-by=$key]}" "$uri" "$suite" \
        > "$apt_dir/sources.list"
    apt_opts=(-q -o "Dir::Etc::sourcelist=$apt_dir/sources.list" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$apt_dir/lists" -o "Dir::Cache=$apt_dir/cache"
        -o "APT::Sandbox::User=$(id -un)")
    apt-get "${apt_opts[@]}" update
}
