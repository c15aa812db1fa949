#!/usr/bin/env bash
# asyncssh cannot read a certificate with a critical option that it does not know.
#
# Document: PROTOCOL.certkeys of OpenSSH. Critical options are extensible: others than its own carry the
#     domain of their author (tenant@example.com). Who validates a certificate and does not know an option
#     should refuse to accept it.
# Expected: a client that only presents its certificate reads it; the server judges the option.
# Seen:     reading the file fails, as if the certificate were damaged, and the option is not named. Other
#     options of the document (source-address) are read.
# Follows:  warn when a role of the SSH engine signs a critical option that OpenSSH does not define: users of
#     asyncssh cannot use the certificate.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

python3 -m venv venv && venv/bin/pip install -q --disable-pip-version-check \
    asyncssh==2.24.1 cryptography==50.0.2 || { echo "packages cannot be installed" >&2; exit 2; }

ssh-keygen -q -t ed25519 -N '' -f ca
for name in known unknown; do
    ssh-keygen -q -t ed25519 -N '' -f "$name"
done
ssh-keygen -q -s ca -I id -n alice -O source-address=192.0.2.0/24 known.pub
ssh-keygen -q -s ca -I id -n alice -O critical:tenant@example.com=blue unknown.pub
ssh-keygen -L -f unknown-cert.pub | grep -A 1 'Critical Options'

cat > read.py <<'END'
import asyncssh

print("asyncssh", asyncssh.__version__)
for name in ("known", "unknown"):
    try:
        print(name + ":", asyncssh.read_certificate(name + "-cert.pub").get_algorithm())
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}")
END
venv/bin/python read.py | tee seen

cat > filed <<'END'
asyncssh 2.24.1
known: ssh-ed25519-cert-v01@openssh.com
unknown: KeyImportError: Invalid OpenSSH certificate
END
diff filed seen || { echo "asyncssh does something else now" >&2; exit 1; }
echo "as filed: a certificate with an unknown critical option cannot be read"
