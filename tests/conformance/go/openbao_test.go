//go:build openbao

package conformance

import (
	"net/http"
	"testing"

	"github.com/hashicorp/vault/api"
)

// rotateKeys gives two of the keys and has three new ones, which are verified.
func rotateKeys(t *testing.T, client *api.Client, keys []string) []string {
	t.Helper()
	sys := client.Sys()
	config := &api.RotateInitRequest{SecretShares: 3, SecretThreshold: 2, RequireVerification: true}
	equal(t, got(sys.RotateRootStatus())(t).Started, false)
	got(sys.RotateRootInit(config))(t)
	_, err := sys.RotateRootInit(config)
	refused(t, err, http.StatusBadRequest, "already in progress")
	must(t, sys.RotateRootCancel())
	begun := got(sys.RotateRootInit(config))(t)
	equal(t, []any{begun.Started, begun.T, begun.N, begun.Required}, []any{true, 2, 3, 2})
	equal(t, got(sys.RotateRootUpdate(keys[0], begun.Nonce))(t).Complete, false)
	equal(t, got(sys.RotateRootStatus())(t).Progress, 1)
	made := got(sys.RotateRootUpdate(keys[2], begun.Nonce))(t)
	equal(t, []any{made.Complete, len(made.Keys), len(made.KeysB64)}, []any{true, 3, 3})
	must(t, sys.RotateRootVerificationCancel())
	nonce := got(sys.RotateRootVerificationStatus())(t).Nonce
	equal(t, got(sys.RotateRootVerificationUpdate(made.Keys[0], nonce))(t).Complete, false)
	equal(t, got(sys.RotateRootVerificationUpdate(made.Keys[1], nonce))(t).Complete, true)
	_, err = sys.RotateRecoveryStatus()
	refused(t, err, http.StatusBadRequest, "no recovery key")
	_, err = sys.RotateRootRetrieveBackup()
	refused(t, err, http.StatusBadRequest, "no backed-up keys")
	refused(t, sys.RotateRoot(), http.StatusNotImplemented, "rotate/root/init")
	must(t, sys.RotateKeyring())
	return made.Keys
}
