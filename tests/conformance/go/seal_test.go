package conformance

import (
	"bytes"
	"net/http"
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
	restore(t, client)
	stepDown(t, client, nodes)
	shrink(t, client)
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
