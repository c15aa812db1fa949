#!/usr/bin/env bash
# PyJWT refuses a token that was issued by a clock a few seconds ahead of its own.
#
# Document: RFC 7519, 4.1.6. "iat" is the time at which the token was issued and can be used to determine its
#     age. Unlike "nbf" (4.1.5) it forbids nothing before that time.
# Expected: the token is accepted.
# Seen:     ImmatureSignatureError, as for "nbf"; a leeway helps.
# Follows:  an issuer never writes an "iat" that is ahead of its clock, and rounds it down; clocks of nodes and
#     clients differ, so documentation advises clients to allow a leeway.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"

python3 -m venv venv && venv/bin/pip install -q --disable-pip-version-check PyJWT==2.15.1 ||
    { echo "packages cannot be installed" >&2; exit 2; }

cat > check.py <<'END'
import time

import jwt

KEY = "of the right length, for HS256 ......"
print("PyJWT", jwt.__version__)
for ahead, leeway in ((-5, 0), (30, 0), (30, 60)):
    now = int(time.time())
    token = jwt.encode({"sub": "a", "iat": now + ahead, "exp": now + 600}, KEY, algorithm="HS256")
    try:
        jwt.decode(token, KEY, algorithms=["HS256"], leeway=leeway)
        said = "accepted"
    except jwt.InvalidTokenError as error:
        said = f"{type(error).__name__}: {error}"
    print(f"iat {ahead:+} s, leeway {leeway} s: {said}")
END
venv/bin/python check.py | tee seen

cat > filed <<'END'
PyJWT 2.15.1
iat -5 s, leeway 0 s: accepted
iat +30 s, leeway 0 s: ImmatureSignatureError: The token is not yet valid (iat)
iat +30 s, leeway 60 s: accepted
END
diff filed seen || { echo "PyJWT does something else now" >&2; exit 1; }
echo "as filed: a token with an iat in the future is refused"
