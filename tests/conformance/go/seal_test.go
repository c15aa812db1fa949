package conformance

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/hashicorp/vault/api"
)

// One test, because each part needs what the one before has left: a cluster goes from its first
// start to the loss of a member.
func TestAClusterIsInitialisedUnsealedSealedAndShrunk(t *testing.T) {
	nodes := addresses("HOLDFAST_SEALED")
	client := connectTo(t, nodes[0], "")
	equal(t, got(client.Sys().InitStatus())(t), false)
	_, err := client.Sys().Init(&api.InitRequest{SecretShares: 3, SecretThreshold: 4})
	refused(t, err, http.StatusBadRequest, "")
	made := got(client.Sys().Init(&api.InitRequest{SecretShares: 3, SecretThreshold: 2}))(t)
	equal(t, []int{len(made.Keys), len(made.KeysB64)}, []int{3, 3})
	for _, address := range nodes {
		unseal(t, connectTo(t, address, made.RootToken), made.Keys)
	}
	client = connectTo(t, nodes[1], made.RootToken)
	eventually(t, "all is served", func() bool {
		_, err := client.Logical().Write("secret/data/x", map[string]any{"data": map[string]any{"a": "b"}})
		return err == nil
	})
	_, err = client.Sys().Init(&api.InitRequest{SecretShares: 1, SecretThreshold: 1})
	refused(t, err, http.StatusBadRequest, "")
	must(t, client.Sys().Seal())
	equal(t, got(client.Sys().SealStatus())(t).Sealed, true)
	unseal(t, client, made.KeysB64)
	eventually(t, "the node serves again", func() bool {
		_, err := client.Logical().Read("secret/data/x")
		return err == nil
	})
	generateRoot(t, client, made.Keys)
	rekeyForHolders(t, client, made.Keys)
	keys := rekey(t, client, rekey(t, client, made.Keys, false), true)
	generateRootWithToken(t, client, keys)
	keys = rotateKeys(t, client, keys)
	restore(t, client)
	stepDown(t, client, nodes)
	shrink(t, client)
	join(t, client, keys)
}

// join takes a new node in as upstream's operators do: no token, but key shares.
func join(t *testing.T, client *api.Client, keys []string) {
	t.Helper()
	leader := got(client.Sys().Leader())(t).LeaderAddress
	logical := connectTo(t, leader, client.Token()).Logical()
	got(logical.Write("sys/storage/raft/certificates/authority", map[string]any{
		"certificate": file(t, "HOLDFAST_AUTHORITY", "ca.pem"),
		"private_key": file(t, "HOLDFAST_AUTHORITY", "ca-key.pem"),
	}))(t)
	bare := connectTo(t, os.Getenv("HOLDFAST_BARE"), client.Token())
	equal(t, got(bare.Sys().SealStatus())(t).Initialized, false)
	_, err := bare.Sys().RaftJoin(&api.RaftJoinRequest{})
	refused(t, err, http.StatusBadRequest, "leader_api_addr")
	_, err = bare.Sys().RaftJoin(&api.RaftJoinRequest{AutoJoin: "provider=aws tag_key=a tag_value=b",
		AutoJoinScheme: "https", AutoJoinPort: 8200})
	refused(t, err, http.StatusBadRequest, "only the provider dns is available, not aws")
	request := &api.RaftJoinRequest{
		LeaderAPIAddr: leader,
		LeaderCACert:  file(t, "HOLDFAST_AUTHORITY", "tls-ca.pem"),
	}
	equal(t, got(bare.Sys().RaftJoin(request))(t).Joined, true)
	status := got(bare.Sys().SealStatus())(t)
	equal(t, []any{status.Initialized, status.Sealed, status.T, status.N}, []any{true, true, 2, 3})
	for _, key := range keys[:2] {
		got(bare.Sys().Unseal(key))(t)
	}
	eventually(t, "the new node serves", func() bool {
		_, err := bare.Logical().Read("secret/data/x")
		return err == nil
	})
	_, err = bare.Sys().RaftJoin(request)
	refused(t, err, http.StatusBadRequest, "already joined")
}

func file(t *testing.T, folder, name string) string {
	t.Helper()
	return string(got(os.ReadFile(filepath.Join(os.Getenv(folder), name)))(t))
}

func unseal(t *testing.T, client *api.Client, keys []string) {
	t.Helper()
	eventually(t, "the node knows how it is sealed", func() bool {
		return got(client.Sys().SealStatus())(t).N == 3
	})
	status := got(client.Sys().Unseal(keys[0]))(t)
	equal(t, []any{status.Sealed, status.T, status.Progress}, []any{true, 2, 1})
	equal(t, got(client.Sys().ResetUnsealProcess())(t).Progress, 0)
	_, err := client.Sys().Unseal("not a key")
	refused(t, err, http.StatusBadRequest, "")
	got(client.Sys().Unseal(keys[1]))(t)
	equal(t, got(client.Sys().UnsealWithOptions(&api.UnsealOpts{Key: keys[2]}))(t).Sealed, false)
}

func generateRoot(t *testing.T, client *api.Client, keys []string) {
	t.Helper()
	begun := got(client.Sys().GenerateRootInit("", ""))(t)
	equal(t, []any{begun.Started, begun.Progress, begun.Required}, []any{true, 0, 2})
	_, err := client.Sys().GenerateRootInit("", "")
	refused(t, err, http.StatusBadRequest, "already in progress")
	must(t, client.Sys().GenerateRootCancel())
	equal(t, got(client.Sys().GenerateRootStatus())(t).Started, false)
	begun = got(client.Sys().GenerateRootInit("", ""))(t)
	equal(t, got(client.Sys().GenerateRootUpdate(keys[0], begun.Nonce))(t).Progress, 1)
	_, err = client.Sys().GenerateRootUpdate(keys[0], begun.Nonce)
	refused(t, err, http.StatusBadRequest, "")
	done := got(client.Sys().GenerateRootUpdate(keys[2], begun.Nonce))(t)
	equal(t, done.Complete, true)
	isRoot(t, client, done.EncodedToken, begun.OTP)
}

// isRoot demands a root token, combined with a one-time password.
func isRoot(t *testing.T, client *api.Client, encoded, otp string) {
	t.Helper()
	mixed := got(base64.RawStdEncoding.DecodeString(encoded))(t)
	for i := range mixed {
		mixed[i] ^= otp[i]
	}
	self := got(connectTo(t, client.Address(), string(mixed)).Auth().Token().LookupSelf())(t)
	equal(t, fmt.Sprint(self.Data["policies"]), "[root]")
}

// generateRootWithToken sends what the newest command line sends, which older clients do not know.
func generateRootWithToken(t *testing.T, client *api.Client, keys []string) {
	t.Helper()
	const attempt, update = "sys/generate-root-token/attempt", "sys/generate-root-token/update"
	logical := client.Logical()
	_, err := connectTo(t, client.Address(), "none").Logical().Read(attempt)
	refused(t, err, http.StatusForbidden, "permission denied")
	nothing := map[string]any{"otp": "", "pgp_key": ""}
	got(logical.Write(attempt, nothing))(t)
	_, err = logical.Write(attempt, nothing)
	refused(t, err, http.StatusBadRequest, "already in progress")
	got(logical.Delete(attempt))(t)
	equal(t, got(logical.Read(attempt))(t).Data["started"], false)
	begun := got(logical.Write(attempt, nothing))(t).Data
	share := map[string]any{"key": keys[0], "nonce": begun["nonce"]}
	equal(t, got(logical.Write(update, share))(t).Data["complete"], false)
	share["key"] = keys[1]
	done := got(logical.Write(update, share))(t).Data
	equal(t, done["complete"], true)
	isRoot(t, client, done["encoded_token"].(string), begun["otp"].(string))
}

// rekey gives two of the keys and has three new ones.
func rekey(t *testing.T, client *api.Client, keys []string, verify bool) []string {
	t.Helper()
	sys := client.Sys()
	config := &api.RekeyInitRequest{SecretShares: 3, SecretThreshold: 2, RequireVerification: verify}
	got(sys.RekeyInit(config))(t)
	_, err := sys.RekeyInit(config)
	refused(t, err, http.StatusBadRequest, "already in progress")
	must(t, sys.RekeyCancel())
	begun := got(sys.RekeyInit(config))(t)
	equal(t, []any{begun.Started, begun.T, begun.N, begun.Required}, []any{true, 2, 3, 2})
	equal(t, got(sys.RekeyUpdate(keys[0], begun.Nonce))(t).Complete, false)
	equal(t, got(sys.RekeyStatus())(t).Progress, 1)
	made := got(sys.RekeyUpdate(keys[2], begun.Nonce))(t)
	equal(t, []any{made.Complete, len(made.Keys), len(made.KeysB64)}, []any{true, 3, 3})
	equal(t, made.VerificationRequired, verify)
	if !verify {
		return made.Keys
	}
	must(t, sys.RekeyVerificationCancel())
	nonce := got(sys.RekeyVerificationStatus())(t).Nonce
	got(sys.RekeyVerificationUpdate(made.Keys[0], nonce))(t)
	equal(t, got(sys.RekeyVerificationUpdate(made.Keys[1], nonce))(t).Complete, true)
	_, err = sys.RekeyRecoveryKeyStatus()
	refused(t, err, http.StatusBadRequest, "no recovery key")
	return made.Keys
}

// holder is a PGP key of gpg 2.2.40, as base64, and its fingerprint.
const (
	holder            = "mDMEZaUeQBYJKwYBBAHaRw8BAQdA0D6kbm0vjhtBdku5y2z7hIyZSbKItSGB+ePynyMh4vC0FmN1cnZlMjU1MTlAZXhhbXBsZS5jb22IkAQTFggAOBYhBJ8j+fsWjgxhfqnY1w857NS6VdDVBQJlpR5AAhsDBQsJCAcCBhUKCQgLAgQWAgMBAh4BAheAAAoJEA857NS6VdDV6I4BAOjthHLkhMjE9rO/Bm5taGV9h+vofJimYBe29/W3yjXaAQD4xm3JD2KccJ86Sl1GyPBF9Xy+UOGI8e+Nwq+8BIOZBLg4BGWlHkASCisGAQQBl1UBBQEBB0BpoXLUCEP4puCA1yY9i4KsHWQE6X/mooZDO/jB50+nRgMBCAeIeAQYFggAIBYhBJ8j+fsWjgxhfqnY1w857NS6VdDVBQJlpR5AAhsMAAoJEA857NS6VdDVjB8A/ihw11aGjKL5qEEZdWYVs6YvLRo3uQvd9Eeuf+R1K/h0AQC3CcxzwxEDYDtsAK8ZVWjk+KVkS4q9GrCmWxcvg2w7DA=="
	holderFingerprint = "9f23f9fb168e0c617ea9d8d70f39ecd4ba55d0d5"
)

// rekeyForHolders has new keys encrypted and backed up, and gives them up before they are verified.
func rekeyForHolders(t *testing.T, client *api.Client, keys []string) {
	t.Helper()
	sys := client.Sys()
	_, err := sys.RekeyRetrieveBackup()
	refused(t, err, http.StatusBadRequest, "no backed-up keys")
	config := &api.RekeyInitRequest{SecretShares: 2, SecretThreshold: 2, RequireVerification: true,
		PGPKeys: []string{holder}, Backup: true}
	_, err = sys.RekeyInit(config)
	refused(t, err, http.StatusBadRequest, "1 keys for 2 shares")
	config.PGPKeys = append(config.PGPKeys, holder)
	var begun *api.RekeyStatusResponse
	eventually(t, "the cluster has the feature level", func() bool {
		begun, err = sys.RekeyInit(config)
		return err == nil
	})
	equal(t, begun.PGPFingerprints, []string{holderFingerprint, holderFingerprint})
	equal(t, got(sys.RekeyUpdate(keys[0], begun.Nonce))(t).Complete, false)
	made := got(sys.RekeyUpdate(keys[1], begun.Nonce))(t)
	equal(t, []any{made.Complete, made.Backup, made.PGPFingerprints},
		[]any{true, true, begun.PGPFingerprints})
	kept := got(sys.RekeyRetrieveBackup())(t)
	equal(t, kept.Nonce, begun.Nonce)
	equal(t, kept.Keys, map[string][]string{holderFingerprint: made.Keys})
	equal(t, kept.KeysB64, map[string][]string{holderFingerprint: made.KeysB64})
	must(t, sys.RekeyDeleteBackup())
	_, err = sys.RekeyRetrieveBackup()
	refused(t, err, http.StatusBadRequest, "no backed-up keys")
	must(t, sys.RekeyCancel())
}

// restore brings back what a snapshot of this cluster has.
func restore(t *testing.T, client *api.Client) {
	t.Helper()
	var snapshot bytes.Buffer
	must(t, client.Sys().RaftSnapshot(&snapshot))
	got(client.Logical().Write("cubbyhole/later", map[string]any{"a": "b"}))(t)
	must(t, client.Sys().RaftSnapshotRestore(&snapshot, false))
	eventually(t, "what came later is gone", func() bool {
		secret, err := client.Logical().Read("cubbyhole/later")
		return err == nil && secret == nil
	})
}

// stepDown asks the leader to leave; whoever leads afterwards may be the same.
func stepDown(t *testing.T, client *api.Client, nodes []string) {
	t.Helper()
	leader := got(client.Sys().Leader())(t)
	must(t, connectTo(t, leader.LeaderAddress, client.Token()).Sys().StepDown())
	eventually(t, "somebody leads", func() bool {
		leader, err := client.Sys().Leader()
		return err == nil && leader.LeaderAddress != ""
	})
}

func shrink(t *testing.T, client *api.Client) {
	t.Helper()
	leader := got(client.Sys().Leader())(t).LeaderAddress
	logical := connectTo(t, leader, client.Token()).Logical()
	members := func() (names []string) {
		secret, err := logical.Read("sys/storage/raft/configuration")
		if err != nil {
			return nil
		}
		for _, each := range secret.Data["config"].(map[string]any)["servers"].([]any) {
			if server := each.(map[string]any); server["leader"] == false {
				names = append(names, server["node_id"].(string))
			}
		}
		return names
	}
	var before []string
	eventually(t, "two members follow", func() bool { before = members(); return len(before) == 2 })
	got(logical.Write("sys/storage/raft/remove-peer", map[string]any{"server_id": before[0]}))(t)
	eventually(t, "one member follows", func() bool { return len(members()) == 1 })
}
