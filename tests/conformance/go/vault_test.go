//go:build !openbao

package conformance

import (
	"net/http"
	"testing"

	"github.com/hashicorp/vault/api"
)

func TestOneMountIsShown(t *testing.T) {
	mount := got(connect(t).Sys().GetMount("secret"))(t)
	equal(t, []string{mount.Type, mount.Options["version"]}, []string{"kv", "2"})
}

func TestCapabilitiesOfAnAccessor(t *testing.T) {
	client := connect(t)
	made := got(client.Auth().Token().Create(&api.TokenCreateRequest{Policies: []string{"default"}}))(t)
	have := got(client.Sys().CapabilitiesAccessor(made.Auth.Accessor, "cubbyhole/x"))(t)
	equal(t, have, []string{"create", "delete", "list", "read", "update"})
}

// rotateKeys does nothing: this client has no calls for it.
func rotateKeys(_ *testing.T, _ *api.Client, keys []string) []string { return keys }

// cancelRecoveryRekey gives the nonce: this client's function without one cancels the rekey of the seal's
// key instead.
func cancelRecoveryRekey(sys *api.Sys, nonce string) error {
	return sys.RekeyRecoveryKeyCancelWithNonce(nonce)
}

// rotateForHolders replaces the shares of root or recovery by new ones, which it decrypts. This client
// has no calls for it but the general ones.
func rotateForHolders(t *testing.T, client *api.Client, what string, h holding, keys []string) []string {
	t.Helper()
	logical, path := client.Logical(), "sys/rotate/"+what
	wanted := map[string]any{"secret_shares": 2, "secret_threshold": 2, "backup": true,
		"pgp_keys": []string{h.key(t), h.key(t)}, "require_verification": true}
	got(logical.Write(path+"/init", wanted))(t)
	got(logical.Delete(path + "/init"))(t)
	equal(t, got(logical.Read(path + "/init"))(t).Data["started"], any(false))
	begun := got(logical.Write(path+"/init", wanted))(t).Data
	equal(t, begun["pgp_fingerprints"], any([]any{h.fingerprint(t), h.fingerprint(t)}))
	share := map[string]any{"key": keys[0], "nonce": begun["nonce"]}
	equal(t, number(t, got(logical.Write(path+"/update", share))(t).Data["progress"]), int64(1))
	share["key"] = keys[1]
	made := got(logical.Write(path+"/update", share))(t).Data
	equal(t, []any{made["complete"], made["backup"]}, []any{true, true})
	kept := got(logical.Read(path + "/backup"))(t).Data
	equal(t, kept["keys_base64"], any(map[string]any{h.fingerprint(t): made["keys_base64"]}))
	got(logical.Delete(path + "/backup"))(t)
	_, err := logical.Read(path + "/backup")
	refused(t, err, http.StatusBadRequest, "no backed-up keys")
	got(logical.Delete(path + "/verify"))(t)
	nonce := got(logical.Read(path + "/verify"))(t).Data["nonce"]
	var shares []string
	for i, text := range made["keys_base64"].([]any) {
		shares = append(shares, h.read(t, text.(string))...)
		given := map[string]any{"key": shares[i], "nonce": nonce}
		done := got(logical.Write(path+"/verify", given))(t).Data["complete"]
		equal(t, done == any(true), i == 1)
	}
	return shares
}
