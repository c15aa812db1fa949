package conformance

import (
	"fmt"
	"net/http"
	"os"
	"testing"

	"github.com/hashicorp/vault/api"
)

// Ceremonies whose shares and tokens are encrypted for their holders, who read them with gpg.

func TestKeySharesAreForTheirHolders(t *testing.T) {
	h := newHolder(t)
	key := h.key(t)
	client := connectTo(t, os.Getenv("HOLDFAST_HOLDERS"), "")
	_, err := client.Sys().Init(&api.InitRequest{SecretShares: 2, SecretThreshold: 2,
		PGPKeys: []string{key}})
	refused(t, err, http.StatusBadRequest, "1 keys for 2 shares")
	made := got(client.Sys().Init(&api.InitRequest{SecretShares: 2, SecretThreshold: 2,
		PGPKeys: []string{key, key}, RootTokenPGPKey: key}))(t)
	keys := h.read(t, made.KeysB64...)
	client.SetToken(h.read(t, made.RootToken)[0])
	for _, each := range keys {
		got(client.Sys().Unseal(each))(t)
	}
	served(t, client)
	generateRootFor(t, client, h, keys)
	keys = rotateForHolders(t, client, "root", h, keys)
	generateRootFor(t, client, h, keys)
}

func TestRecoverySharesAreForTheirHolders(t *testing.T) {
	h := newHolder(t)
	key := h.key(t)
	client := connectTo(t, os.Getenv("HOLDFAST_RECOVERING"), "")
	sys := client.Sys()
	_, err := sys.Init(&api.InitRequest{PGPKeys: []string{key}})
	refused(t, err, http.StatusBadRequest, "not applicable")
	made := got(sys.Init(&api.InitRequest{RecoveryShares: 2, RecoveryThreshold: 2,
		RecoveryPGPKeys: []string{key, key}}))(t)
	keys := h.read(t, made.RecoveryKeysB64...)
	client.SetToken(made.RootToken)
	served(t, client)
	config := &api.RekeyInitRequest{SecretShares: 2, SecretThreshold: 2, PGPKeys: []string{key, key},
		Backup: true, RequireVerification: true}
	must(t, cancelRecoveryRekey(sys, got(sys.RekeyRecoveryKeyInit(config))(t).Nonce))
	equal(t, got(sys.RekeyRecoveryKeyStatus())(t).Started, false)
	begun := got(sys.RekeyRecoveryKeyInit(config))(t)
	equal(t, begun.PGPFingerprints, []string{h.fingerprint(t), h.fingerprint(t)})
	equal(t, got(sys.RekeyRecoveryKeyUpdate(keys[0], begun.Nonce))(t).Complete, false)
	done := got(sys.RekeyRecoveryKeyUpdate(keys[1], begun.Nonce))(t)
	equal(t, []any{done.Complete, done.Backup}, []any{true, true})
	kept := got(sys.RekeyRetrieveRecoveryBackup())(t)
	equal(t, kept.Keys, map[string][]string{h.fingerprint(t): done.Keys})
	equal(t, kept.KeysB64, map[string][]string{h.fingerprint(t): done.KeysB64})
	must(t, sys.RekeyDeleteRecoveryBackup())
	_, err = sys.RekeyRetrieveRecoveryBackup()
	refused(t, err, http.StatusBadRequest, "no backed-up keys")
	keys = h.read(t, done.KeysB64...)
	must(t, sys.RekeyRecoveryKeyVerificationCancel())
	nonce := got(sys.RekeyRecoveryKeyVerificationStatus())(t).Nonce
	got(sys.RekeyRecoveryKeyVerificationUpdate(keys[0], nonce))(t)
	equal(t, got(sys.RekeyRecoveryKeyVerificationUpdate(keys[1], nonce))(t).Complete, true)
	keys = rotateForHolders(t, client, "recovery", h, keys)
	generateRootFor(t, client, h, keys)
}

// served waits until the cluster serves and has the feature level that backups need.
func served(t *testing.T, client *api.Client) {
	t.Helper()
	eventually(t, "the cluster has the feature level", func() bool {
		secret, err := client.Logical().Read("sys/storage/raft/autopilot/state")
		if err != nil || secret == nil {
			return false
		}
		level, ok := secret.Data["feature_level"]
		return ok && number(t, level) >= 2
	})
}

func generateRootFor(t *testing.T, client *api.Client, h holding, keys []string) {
	t.Helper()
	sys := client.Sys()
	begun := got(sys.GenerateRootInit("", h.key(t)))(t)
	equal(t, []any{begun.PGPFingerprint, begun.OTP}, []any{h.fingerprint(t), ""})
	got(sys.GenerateRootUpdate(keys[0], begun.Nonce))(t)
	done := got(sys.GenerateRootUpdate(keys[1], begun.Nonce))(t)
	token := h.read(t, done.EncodedToken)[0]
	self := got(connectTo(t, client.Address(), token).Auth().Token().LookupSelf())(t)
	equal(t, fmt.Sprint(self.Data["policies"]), "[root]")
}
