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
	refused(t, sys.RotateRoot(), http.StatusBadRequest, "rotate/root/init")
	must(t, sys.RotateKeyring())
	return made.Keys
}

func cancelRecoveryRekey(sys *api.Sys, _ string) error { return sys.RekeyRecoveryKeyCancel() }

// rotating is what this client calls for root or for recovery.
type rotating struct {
	init         func(*api.RotateInitRequest) (*api.RotateStatusResponse, error)
	status       func() (*api.RotateStatusResponse, error)
	cancel       func() error
	update       func(share, nonce string) (*api.RotateUpdateResponse, error)
	retrieve     func() (*api.RotateRetrieveResponse, error)
	forget       func() error
	verifyStatus func() (*api.RotateVerificationStatusResponse, error)
	verifyUpdate func(share, nonce string) (*api.RotateVerificationUpdateResponse, error)
	verifyCancel func() error
}

func rotatingOf(sys *api.Sys, what string) rotating {
	if what == "root" {
		return rotating{sys.RotateRootInit, sys.RotateRootStatus, sys.RotateRootCancel,
			sys.RotateRootUpdate, sys.RotateRootRetrieveBackup, sys.RotateRootDeleteBackup,
			sys.RotateRootVerificationStatus, sys.RotateRootVerificationUpdate,
			sys.RotateRootVerificationCancel}
	}
	return rotating{sys.RotateRecoveryInit, sys.RotateRecoveryStatus, sys.RotateRecoveryCancel,
		sys.RotateRecoveryUpdate, sys.RotateRecoveryRetrieveBackup, sys.RotateRecoveryDeleteBackup,
		sys.RotateRecoveryVerificationStatus, sys.RotateRecoveryVerificationUpdate,
		sys.RotateRecoveryVerificationCancel}
}

// rotateForHolders replaces the shares of root or recovery by new ones, which it decrypts.
func rotateForHolders(t *testing.T, client *api.Client, what string, h holding, keys []string) []string {
	t.Helper()
	calls := rotatingOf(client.Sys(), what)
	config := &api.RotateInitRequest{SecretShares: 2, SecretThreshold: 2, Backup: true,
		PGPKeys: []string{h.key(t), h.key(t)}, RequireVerification: true}
	got(calls.init(config))(t)
	must(t, calls.cancel())
	equal(t, got(calls.status())(t).Started, false)
	begun := got(calls.init(config))(t)
	equal(t, begun.PGPFingerprints, []string{h.fingerprint(t), h.fingerprint(t)})
	equal(t, got(calls.update(keys[0], begun.Nonce))(t).Complete, false)
	made := got(calls.update(keys[1], begun.Nonce))(t)
	equal(t, []any{made.Complete, made.Backup}, []any{true, true})
	kept := got(calls.retrieve())(t)
	equal(t, kept.Keys, map[string][]string{h.fingerprint(t): made.Keys})
	equal(t, kept.KeysB64, map[string][]string{h.fingerprint(t): made.KeysB64})
	must(t, calls.forget())
	_, err := calls.retrieve()
	refused(t, err, http.StatusBadRequest, "no backed-up keys")
	must(t, calls.verifyCancel())
	nonce := got(calls.verifyStatus())(t).Nonce
	shares := h.read(t, made.KeysB64...)
	got(calls.verifyUpdate(shares[0], nonce))(t)
	equal(t, got(calls.verifyUpdate(shares[1], nonce))(t).Complete, true)
	return shares
}
